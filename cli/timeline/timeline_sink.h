// Where all ranks' timelines come together: the one file, from --timeline-filename on or between a
// start and a stop of the program.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "cli/timeline/timeline_file.h"
#include "cli/timeline/timeline_format.h"
#include "common/base/environment.h"
#include "common/host/topology.h"
#include "common/wire/messages.h"

namespace hvdrun {

struct TimelineOptions {
  std::string file;      // empty: none
  bool dynamic = false;  // the program starts it, and names the file
};

// HVD_TIMELINE or HOROVOD_TIMELINE of the ranks: the options set them.
TimelineOptions timeline_options(const Environment& env);
// True where NAME=VALUE is one that hvdrun and libhvd read for the timeline.
bool is_timeline_variable(std::string_view entry);
// Drops the settings in an hvdrun that is itself a rank's: the outer one is writing to that file.
// One that keeps a record of what it has set (common/base/launch_record.h) has written them down
// there.
void drop_outer_timeline(Environment& env);

class TimelineSink {
 public:
  using Say = std::function<void(const std::string&)>;

  // Opens the file. Throws UsageError that names it.
  explicit TimelineSink(TimelineOptions options);

  // Before anything else: who is where, and where a line for the user goes.
  void set_job(RankTable table, Say say);
  // The job has more hosts or slots.
  void grow(const RankTable& table) { table_ = table; }
  void batch(const TimelineBatch& batch);
  void control(const TimelineControl& control);
  // The job is over: what still lasts is written as unfinished.
  void finish();

 private:
  // One file. The ranks' last events may come after rank 0 has started the next one.
  struct Recording {
    std::string path;
    std::optional<TimelineFile> file;      // none: it could not be written
    std::optional<TimelineFormat> format;  // once there are events
    std::set<std::uint32_t> stopped;       // ranks
  };
  using Recordings = std::map<std::uint32_t, Recording>;

  void start(const TimelineControl& control);
  void stop(const TimelineControl& control);
  bool is_early(std::uint32_t session) const { return options_.dynamic && session > session_; }
  // That of a rank's session. The file of --timeline-filename has all of them.
  Recordings::iterator find(std::uint32_t session) {
    return recordings_.find(options_.dynamic ? session : 0);
  }
  void take_early();
  void append(Recording& recording, const TraceEvents& events);
  void finish(Recordings::iterator recording);

  const TimelineOptions options_;
  RankTable table_;
  Say say_;
  Recordings recordings_;      // by session; 0: that of --timeline-filename
  std::uint32_t session_ = 0;  // the last that rank 0 has started
  // Messages that have overtaken rank 0's start, which comes over another connection.
  std::vector<std::variant<TimelineBatch, TimelineControl>> early_;
  std::size_t early_bytes_ = 0;
  std::map<std::uint32_t, std::uint64_t> early_dropped_;  // events, by rank
  bool refused_ = false;                                  // a start, and said so
  bool damaged_ = false;                                  // a batch, and said so
};

}  // namespace hvdrun
