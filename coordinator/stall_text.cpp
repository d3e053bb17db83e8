#include "coordinator/stall_text.h"

#include <algorithm>

#include "common/base/printable.h"
#include "common/base/rank_ranges.h"
#include "common/process/process_words.h"

namespace hvdrun {
namespace {

std::string seconds_of(const Stall& stall) { return std::to_string(stall.age_ms / 1000) + " s"; }

const RankPicture* picture_of(std::uint32_t rank, const SurveyedRanks& ranks) {
  const auto found = ranks.find(rank);
  return found == ranks.end() ? nullptr : &found->second;
}

// "sleeping in futex_do_wait, in read of pipe:[4711]"
std::string process_text(const RankPicture& picture) {
  const RankProbe& probe = picture.probe;
  if (probe.state.empty()) return "its process is gone";
  std::string text = process_word(probe.state);
  if (text.empty()) text = "state " + printable(probe.state);
  if (!probe.wait_channel.empty()) text += " in " + printable(probe.wait_channel);
  if (!picture.probe.system_call.empty())
    text += ", system call " + printable(picture.probe.system_call);
  return text;
}

// A rank's progress, as its library tells it.
std::string progress_text(RankState state, const RankPicture* picture) {
  switch (state) {
    case RankState::assigned:
      return "has not started";
    case RankState::started:
      return "has not called hvd::init";
    case RankState::left:
      return "has shut hvd down, or its line has ended";
    case RankState::exited:
      return "has ended";
    case RankState::joined:
      break;
  }
  if (picture == nullptr) return "";
  const StallReport& report = picture->report;
  const std::string last = "last submitted " + quoted_word(report.last_submitted) + ", " +
                           std::to_string(report.submitted) + " in all";
  if (!picture->answered)
    return "does not answer" + (report.submitted > 0 ? "; when it last did: " + last : "");
  return report.submitted > 0 ? last : "has submitted nothing";
}

std::vector<std::string> rank_lines(std::uint32_t rank, const SurveyedRanks& ranks,
                                    const Membership& members, bool with_progress) {
  const RankRecord& record = members.ranks()[rank];
  const RankPicture* const picture = picture_of(rank, ranks);
  std::string line = "  " + rank_on_host(rank, members);
  std::string progress;
  if (with_progress) progress = progress_text(record.state, picture);
  if (record.state == RankState::assigned || record.state == RankState::exited)
    return {line + ": " + progress_text(record.state, picture)};
  if (picture == nullptr) {
    if (record.pid != 0) line += " (pid " + std::to_string(record.pid) + ")";
    return {line + ": its host has not answered" + (progress.empty() ? "" : "; " + progress)};
  }
  line += " (pid " + std::to_string(picture->probe.pid);
  if (!picture->command.empty()) line += ", " + printable(picture->command);
  line += "): " + process_text(*picture);
  if (!progress.empty()) line += "; " + progress;
  if (picture->probe.stack == kHiddenStack) line += "; kernel stack not allowed";
  if (picture->probe.stack.empty() || picture->probe.stack == kHiddenStack) return {line};
  return {line, "    kernel stack: " + printable(picture->probe.stack, limits::kMaxKernelStack)};
}

std::vector<std::string> first_ranks(const std::vector<std::uint32_t>& missing,
                                     const SurveyedRanks& ranks, const Membership& members,
                                     bool with_progress) {
  std::vector<std::string> lines;
  const std::size_t named = std::min(missing.size(), kNamedRanks);
  for (std::size_t i = 0; i < named; ++i)
    for (std::string& line : rank_lines(missing[i], ranks, members, with_progress))
      lines.push_back(std::move(line));
  if (named < missing.size())
    lines.push_back("  and " + std::to_string(missing.size() - named) + " more");
  return lines;
}

std::string stall_line(const Stall& stall) {
  std::string line = "tensor " + quoted_word(stall.tensor) + " waits since " + seconds_of(stall);
  if (stall.missing.empty() && stall.too_many.empty()) {
    line += stall.of_set            ? ", and every rank of the set has submitted it"
            : stall.in_join.empty() ? ", and every rank has submitted it"
                                    : ", and every rank that has not joined has submitted it";
  } else {
    if (!stall.missing.empty()) line += " for rank " + rank_ranges(stall.missing, kNamedRanks);
    line += "; submitted by rank " + rank_ranges(stall.waiting, kNamedRanks);
    if (!stall.too_many.empty())
      line += "; unknown of rank " + rank_ranges(stall.too_many, kNamedRanks) +
              ", which has too many that wait";
  }
  if (!stall.in_join.empty())
    line += "; rank " + rank_ranges(stall.in_join, kNamedRanks) +
            (stall.in_join.size() == 1 ? " has joined" : " have joined");
  if (stall.others > 0)
    line += "; " + std::to_string(stall.others) +
            (stall.others == 1 ? " other waits" : " others wait") + " with it";
  return line;
}

std::vector<std::string> stall_lines(const Stall& stall, const SurveyedRanks& ranks,
                                     const Membership& members) {
  std::vector<std::string> lines{stall_line(stall)};
  for (std::string& more : first_ranks(stall.missing, ranks, members, true))
    lines.push_back(std::move(more));
  for (const Stall& other : stall.also) lines.push_back("  also: " + stall_line(other));
  if (stall.more > 0)
    lines.push_back("  also: " + std::to_string(stall.more) + " more, for others");
  return lines;
}

}  // namespace

std::string rank_on_host(std::uint32_t rank, const Membership& members) {
  return "rank " + std::to_string(rank) + " on " +
         members.hosts()[members.ranks()[rank].place.host].name;
}

std::vector<std::string> missing_lines(const std::vector<std::uint32_t>& missing,
                                       const SurveyedRanks& ranks, const Membership& members) {
  return first_ranks(missing, ranks, members, false);
}

StallWarning stall_warning(const Stall& stall, bool ends_job, const SurveyedRanks& ranks,
                           const Membership& members) {
  StallWarning warning;
  warning.tensor = stall.tensor;
  warning.waited_ms = stall.age_ms;
  warning.ends_job = ends_job;
  warning.waiting = static_cast<std::uint32_t>(stall.waiting.size());
  warning.missing = static_cast<std::uint32_t>(stall.missing.size());
  for (const std::uint32_t rank : stall.missing) {
    if (warning.named.size() == kNamedRanks) break;
    const RankRecord& record = members.ranks()[rank];
    NamedRank named{record.place.host, name_of(record.state), {}};
    if (const RankPicture* const picture = picture_of(rank, ranks)) named.picture = *picture;
    named.picture.probe.rank = rank;
    warning.named.push_back(std::move(named));
  }
  warning.lines = stall_lines(stall, ranks, members);
  return warning;
}

std::string stall_cause(const Stall& stall, const Membership& members) {
  std::string text = "tensor " + quoted_word(stall.tensor) + " had waited " + seconds_of(stall);
  if (stall.missing.empty())
    return text + (!stall.too_many.empty() ? ""
                   : stall.of_set          ? ", submitted by every rank of the set"
                                           : ", submitted by every rank");
  const std::size_t named = std::min(stall.missing.size(), kNamedRanks);
  for (std::size_t i = 0; i < named; ++i)
    text += (i == 0 ? " for " : ", ") + rank_on_host(stall.missing[i], members);
  if (named < stall.missing.size())
    text += " and " + std::to_string(stall.missing.size() - named) + " more";
  return text;
}

}  // namespace hvdrun
