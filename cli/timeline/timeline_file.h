// A JSON array in a file, to which elements are appended. The file is the array of those written so
// far at every moment.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "cli/timeline/timeline_format.h"
#include "common/base/unique_fd.h"

namespace hvdrun {

// One write: it begins behind the last element, where the end of the array has been, and ends with
// the end of the array.
struct TimelinePiece {
  std::uint64_t at = 0;
  std::string bytes;
};

// The file with nothing in it, and how much of that is the end of the array.
inline constexpr std::string_view kEmptyTimeline = "[\n]\n";
inline constexpr std::string_view kTimelineEnd = "\n]\n";

// The writes that append the events to a file whose last element ends at `end`. The kernel copies a
// write page by page, and between two pages a SIGKILL cuts it off. So no piece reaches into another
// page, unless one event does. Then the end of the array is gone for as long as that takes, a
// microsecond; viewers read such a file all the same.
std::vector<TimelinePiece> cut_timeline(std::uint64_t end, bool is_first,
                                        const TraceEvents& events);

class TimelineFile {
 public:
  enum class Existing : std::uint8_t {
    overwrite,  // the user named the file
    only_ours,  // the program did: only what begins as kEmptyTimeline, and ends in .json
  };

  // Makes the file, empty. Throws std::system_error or UsageError, without the name of the file.
  TimelineFile(const std::string& path, Existing existing);

  // After a fault the file has what it had before, and gets nothing more.
  std::error_code append(const TraceEvents& events);

 private:
  std::error_code write(const TimelinePiece& piece);

  UniqueFd file_;
  std::uint64_t end_ = 1;  // of the last element
  bool is_first_ = true;
};

}  // namespace hvdrun
