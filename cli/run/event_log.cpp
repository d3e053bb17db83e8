#include "cli/run/event_log.h"

#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include <time.h>

#include "cli/options/options.h"
#include "cli/run/job_report.h"
#include "cli/text/json_text.h"
#include "common/base/limits.h"
#include "common/base/output_place.h"
#include "common/base/rank_ranges.h"

namespace hvdrun {
namespace {

std::string now_text() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  tm parts{};
  ::gmtime_r(&now.tv_sec, &parts);
  char text[40];
  const std::size_t size = ::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  char all[64];
  std::snprintf(all, sizeof all, "%.*s.%06ldZ", static_cast<int>(size), text, now.tv_nsec / 1000);
  return all;
}

std::string field(const char* name, std::uint64_t value) {
  return ",\"" + std::string(name) + "\":" + std::to_string(value);
}

std::string field(const char* name, const std::string& value) {
  return ",\"" + std::string(name) + "\":" + json_quoted(value);
}

std::string field(const char* name, const std::vector<std::string>& values) {
  std::string text = ",\"" + std::string(name) + "\":[";
  for (std::size_t i = 0; i < values.size(); ++i)
    text += (i == 0 ? "" : ",") + json_quoted(values[i]);
  return text + "]";
}

std::string flag(const char* name, bool value) {
  return ",\"" + std::string(name) + "\":" + (value ? "true" : "false");
}

std::string end_fields(ExitKind kind, std::uint64_t value) {
  switch (kind) {
    case ExitKind::exited:
      return field("exit_code", value);
    case ExitKind::signaled:
      return field("signal", value);
    case ExitKind::not_started:
      return field("errno", value);
    case ExitKind::lost:
      return ",\"lost\":true";
  }
  return "";
}

const char* name_of(EndCause cause) {
  switch (cause) {
    case EndCause::success:
      return "success";
    case EndCause::rank_failed:
      return "rank_failed";
    case EndCause::host_lost:
      return "host_lost";
    case EndCause::aborted:
      return "aborted";
    case EndCause::start_timeout:
      return "start_timeout";
    case EndCause::early_exit:
      return "early_exit";
    case EndCause::never_joined:
      return "never_joined";
    case EndCause::timeout:
      return "timeout";
    case EndCause::not_startable:
      return "not_startable";
    case EndCause::stalled:
      return "stalled";
    case EndCause::too_few_ranks:
      return "too_few_ranks";
    case EndCause::too_many_resets:
      return "too_many_resets";
  }
  return "unknown";
}

}  // namespace

EventLog::EventLog(const std::string& path, std::string job_id)
    // A pipe may have no reader, or one that is slow: neither is waited for.
    : file_(open_output_stream(path, Begin::at_end, SlowReader::not_waited_for)),
      job_id_(std::move(job_id)) {
  if (!file_) throw UsageError("--events: " + path + ": " + output_fault_text(errno));
}

void EventLog::start(boost::asio::io_context& io, std::function<void()> on_progress) {
  if (!file_) return;
  lines_ = std::make_unique<OwnLines>(limits::kMaxEventsWaiting, [this](std::uint64_t count) {
    return line("left_out", field("lines", count));
  });
  writer_ = std::make_unique<FdWriter>(
      io, file_.get(),
      [this, on_progress = std::move(on_progress)] {
        count_written();
        if (writer_->is_broken()) fail("nobody reads it");
        on_progress();
      },
      [this](int error) { fail(std::system_category().message(error)); });
  file_.reset();
}

void EventLog::hurry(std::chrono::milliseconds patience) {
  if (writer_) writer_->hurry(patience);
}

void EventLog::fail(const std::string& why) {
  if (!std::exchange(failed_, true)) fault_ = why;
}

std::string EventLog::line(const std::string& event, const std::string& fields) const {
  return "{\"time\":\"" + now_text() + "\",\"job\":" + json_quoted(job_id_) + ",\"event\":\"" +
         event + "\"" + fields + "}\n";
}

void EventLog::write(const std::string& event, const std::string& fields, OwnLines::Kind kind) {
  if (!writer_ || ended_) return;
  writer_->write(lines_->offer(line(event, fields), kind));
  // One write for a line: whoever follows the file never sees half of one.
  writer_->flush();
  count_written();
}

void EventLog::count_written() {
  const std::uint64_t before = std::exchange(counted_, writer_->written());
  writer_->write(lines_->gone(counted_ - before));
}

void EventLog::job_started(std::uint32_t size, const std::vector<std::string>& hosts,
                           const std::vector<std::string>& argv) {
  write("job_started", field("size", size) + field("hosts", hosts) + field("argv", argv));
}

void EventLog::rank(const RankEvent& event, const std::string& host) {
  std::string fields =
      field("rank", event.rank) + field("host", host) + field("state", event.state);
  if (event.slot != event.rank) fields += field("slot", event.slot);
  if (event.pid != 0) fields += field("pid", event.pid);
  if (event.state == "exited") {
    fields += end_fields(event.kind, event.value);
    fields += flag("ended_by_hvdrun", event.ended_by_us);
  }
  write("rank", fields);
}

void EventLog::epoch(std::uint32_t number, const EpochBegun& message) {
  std::string slots;
  for (const EpochMember& member : message.members)
    slots += (slots.empty() ? "" : ",") + std::to_string(member.slot);
  write("epoch", field("epoch", number) + field("size", message.members.size()) + ",\"slots\":[" +
                     slots + "]");
}

void EventLog::stall(const StallWarning& warning, const std::vector<HostSlots>& hosts) {
  std::string named;
  for (const NamedRank& rank : warning.named) {
    const RankPicture& picture = rank.picture;
    std::string fields = field("host", rank.host < hosts.size() ? hosts[rank.host].name : "") +
                         field("state", rank.state);
    if (picture.probe.pid != 0) fields += field("pid", picture.probe.pid);
    for (const auto& [name, value] :
         {std::pair("command", &picture.command), std::pair("process", &picture.probe.state),
          std::pair("wait_channel", &picture.probe.wait_channel),
          std::pair("system_call", &picture.probe.system_call),
          std::pair("stack", &picture.probe.stack),
          std::pair("last_submitted", &picture.report.last_submitted)})
      if (!value->empty()) fields += field(name, *value);
    fields += field("submitted", picture.report.submitted) + flag("answered", picture.answered);
    named += (named.empty() ? "{\"rank\":" : ",{\"rank\":") + std::to_string(picture.probe.rank) +
             fields + "}";
  }
  write("stall", field("tensor", warning.tensor) + field("waited_ms", warning.waited_ms) +
                     field("waiting", warning.waiting) + field("missing", warning.missing) +
                     ",\"missing_ranks\":[" + named + "]" + flag("ends_job", warning.ends_job));
}

void EventLog::job_ended(const JobEnded& verdict) {
  std::string fields =
      field("cause", std::string(name_of(verdict.cause))) + field("exit_code", verdict.exit_code);
  const bool names_rank =
      verdict.cause == EndCause::rank_failed || verdict.cause == EndCause::early_exit;
  if (names_rank) fields += field("rank", verdict.rank) + field("pid", verdict.pid);
  if (!verdict.host.empty()) fields += field("host", verdict.host);
  // The owner of the number: a program may exit with one that is also ours.
  const bool is_programs =
      verdict.cause == EndCause::rank_failed && verdict.kind == ExitKind::exited;
  fields += std::string(",\"exit_code_of\":\"") +
            (is_programs || verdict.exit_code == 0 ? "program" : "hvdrun") + "\"";
  if (verdict.cause != EndCause::success) fields += field("text", describe_cause(verdict));
  if (verdict.out_of_memory) fields += ",\"out_of_memory\":true";
  write("job_ended", fields, OwnLines::Kind::verdict);
  ended_ = true;  // the last line: ranks that end afterwards are no news
}

}  // namespace hvdrun
