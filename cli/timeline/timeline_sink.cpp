#include "cli/timeline/timeline_sink.h"

#include <iterator>
#include <utility>

#include "cli/options/options.h"
#include "common/base/launch_record.h"
#include "common/base/limits.h"
#include "common/base/printable.h"
#include "common/net/clock_offset.h"
#include "common/wire/timeline_name.h"

namespace hvdrun {
namespace {

constexpr std::size_t kMaxOpen = 4;      // files at once
constexpr std::size_t kItemBytes = 128;  // of what waits for rank 0's start, besides its events

}  // namespace

TimelineOptions timeline_options(const Environment& env) {
  const char* value = find_variable(env, "HVD_TIMELINE");
  if (value == nullptr) value = find_variable(env, "HOROVOD_TIMELINE");
  const std::string text = value == nullptr ? "" : value;
  if (text == kDynamicTimeline) return {{}, true};
  return {text, false};
}

bool is_timeline_variable(std::string_view entry) {
  return entry.starts_with("HVD_TIMELINE") || entry.starts_with("HOROVOD_TIMELINE");
}

void drop_outer_timeline(Environment& env) {
  if (find_variable(env, "HVD_JOB_ID") == nullptr || find_variable(env, kLaunchRecord) != nullptr)
    return;
  std::erase_if(env, [](const std::string& entry) { return is_timeline_variable(entry); });
}

TimelineSink::TimelineSink(TimelineOptions options) : options_(std::move(options)) {
  if (options_.file.empty()) return;
  Recording& recording = recordings_[0];
  recording.path = options_.file;
  const std::string where = "--timeline-filename " + quoted_word(recording.path) + ": ";
  try {
    recording.file.emplace(recording.path, TimelineFile::Existing::overwrite);
  } catch (const UsageError& e) {
    throw UsageError(where + e.what());
  } catch (const std::system_error& e) {
    throw UsageError(where + e.code().message());
  }
}

void TimelineSink::set_job(RankTable table, Say say) {
  table_ = std::move(table);
  say_ = std::move(say);
}

void TimelineSink::batch(const TimelineBatch& batch) {
  if (is_early(batch.session)) {
    if (early_bytes_ + batch.bytes.size() > limits::kMaxTimelineHeld) {
      early_dropped_[batch.rank] += batch.dropped + batch.count;
      return;
    }
    early_bytes_ += batch.bytes.size() + kItemBytes;
    early_.emplace_back(batch);
    return;
  }
  const auto found = find(batch.session);
  if (found == recordings_.end() || !found->second.file) return;
  Recording& recording = found->second;
  if (!recording.format)
    recording.format.emplace([this](std::uint32_t rank) { return table_.host_name(rank); });
  TraceEvents events;
  if (recording.format->add(batch, events)) return append(recording, events);
  if (!std::exchange(damaged_, true))
    say_("rank " + std::to_string(batch.rank) +
         " sent timeline events that hvdrun does not understand; they are left out");
}

void TimelineSink::control(const TimelineControl& control) {
  if (control.on) {
    if (control.rank == 0) start(control);
  } else if (!is_early(control.session)) {
    stop(control);
  } else if (early_bytes_ < limits::kMaxTimelineHeld) {
    early_bytes_ += kItemBytes;
    early_.emplace_back(control);
  }
}

void TimelineSink::stop(const TimelineControl& control) {
  const auto recording = find(control.session);
  if (recording == recordings_.end()) return;
  auto& stopped = recording->second.stopped;
  stopped.insert(control.rank);
  if (stopped.size() == table_.size()) finish(recording);
}

void TimelineSink::start(const TimelineControl& control) {
  if (!options_.dynamic) {
    if (!std::exchange(refused_, true))
      say_("rank 0 starts a timeline in " + quoted_word(control.path) +
           ", which only a job of --timeline-filename DYNAMIC may do");
    return;
  }
  // The recordings of ranks that never stop do not become more and more; and a file may be written
  // again.
  for (auto old = recordings_.begin(); old != recordings_.end();) {
    const auto next = std::next(old);
    const bool again = old->first == control.session || old->second.path == control.path;
    if (again || recordings_.size() == kMaxOpen) finish(old);
    old = next;
  }
  session_ = control.session;
  Recording& recording = recordings_[session_];
  recording.path = control.path;
  std::string why;
  try {
    if (control.path.empty()) throw UsageError("no name");
    if (control.path.find('\0') != std::string::npos) throw UsageError("a zero byte in its name");
    recording.file.emplace(control.path, TimelineFile::Existing::only_ours);
  } catch (const UsageError& e) {
    why = e.what();
  } catch (const std::system_error& e) {
    why = e.code().message();
  }
  if (!why.empty())
    say_("timeline " + quoted_word(control.path) + ": " + why + "; none is written");
  take_early();
}

void TimelineSink::take_early() {
  early_bytes_ = 0;
  const auto dropped = std::exchange(early_dropped_, {});
  for (const auto& said : std::exchange(early_, {})) {
    if (const auto* events = std::get_if<TimelineBatch>(&said)) {
      batch(*events);
    } else {
      control(std::get<TimelineControl>(said));
    }
  }
  for (const auto& [rank, count] : dropped) {
    TimelineBatch gap;
    gap.rank = rank;
    gap.session = session_;
    gap.dropped = count;
    batch(gap);
  }
}

void TimelineSink::append(Recording& recording, const TraceEvents& events) {
  if (!recording.file) return;
  const std::error_code ec = recording.file->append(events);
  if (!ec) return;
  recording.file.reset();
  say_("timeline " + quoted_word(recording.path) + ": " + ec.message() +
       "; it ends here, the job goes on");
}

void TimelineSink::finish() {
  while (!recordings_.empty()) finish(recordings_.begin());
}

void TimelineSink::finish(Recordings::iterator recording) {
  Recording last = std::move(recording->second);
  recordings_.erase(recording);
  if (!last.format) return;
  TraceEvents events;
  last.format->finish(monotonic_ns(), events);
  append(last, events);
}

}  // namespace hvdrun
