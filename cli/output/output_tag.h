// The tag in front of a line. "on" is [{rank}]<{stream}>: and "off" nothing; anything else is a
// template with the names
//
//   {rank} {local_rank} {host} {stream}   {stream} is stdout or stderr
//   {time}                                local time, 2026-11-21 04:41:41.123
//
// and {{ and }} for braces. Lines of several ranks at once have lists: 0-2,5. Sans-I/O; the clock
// is the caller's.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "common/host/topology.h"
#include "common/wire/messages.h"

namespace hvdrun {

using WallTime = std::chrono::system_clock::time_point;

// Sorted numbers, without repeats, as ranges: 0-2,5.
std::string to_ranges(const std::vector<std::uint32_t>& numbers);

// Throws UsageError for a template with a name that does not exist.
void check_tag(const std::string& text);

class OutputTag {
 public:
  // `timestamp`: asctime's form of the time in front. Throws as check_tag().
  OutputTag(const std::string& text, bool timestamp, bool color,
            std::shared_ptr<const RankTable> table);

  // The table has more slots now.
  void grow();
  // From now on slots have other ranks; a slot that is not among these keeps the one it had.
  void begin_epoch(const std::vector<EpochMember>& members);

  // The tag of lines of these ranks, by their slots (sorted; at least one). Valid until the next
  // call.
  const std::string& render(const std::vector<std::uint32_t>& ranks, OutputStream stream,
                            WallTime now);
  // There is none: lines are shown as they are.
  bool empty() const { return pieces_.empty(); }
  bool has_color() const { return color_; }

 private:
  enum class Name { none, rank, local_rank, host, stream, time, asctime };
  struct Piece {
    std::string text;  // with Name::none
    Name name = Name::none;
  };

  void parse(const std::string& text);
  std::string build(const std::vector<std::uint32_t>& ranks, OutputStream stream, WallTime now);
  std::string value(Name name, const std::vector<std::uint32_t>& ranks, OutputStream stream,
                    WallTime now);
  std::string format_time(Name name, WallTime now);

  std::vector<Piece> pieces_;
  bool has_time_ = false;
  bool color_ = false;
  std::shared_ptr<const RankTable> table_;
  std::vector<RankPlace> places_;                  // by slot, of the moment
  std::vector<std::array<std::string, 2>> cache_;  // by rank and stream; without a time only
  std::string current_;
  std::time_t second_ = -1;  // what calendar_ is for
  std::tm calendar_{};
};

}  // namespace hvdrun
