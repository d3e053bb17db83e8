// Timeline events on their way from this host's ranks to hvdrun, with what its clock is ahead of
// this host's. They wait here until the clock is known and while the connection is behind: as many
// as limits::kMaxTimelineHeld; what comes then is counted as dropped. Sans-I/O; nanoseconds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <variant>

#include "common/net/clock_offset.h"
#include "common/wire/messages.h"

namespace hvdrun {

class TimelineOutbox {
 public:
  // Questions that are asked one after the other, as soon as there are events; then one a second.
  static constexpr std::size_t kFirstQueries = 8;

  // `clock`: this host's own_clock(). `same_clock`: the coordinator is known to have the same.
  TimelineOutbox(std::string clock, bool same_clock)
      : clock_(std::move(clock)), same_clock_(same_clock) {}

  void add(TimelineBatch batch);
  void add(TimelineControl control);

  // The question to send now, if one is due. Look after each add() and reply().
  std::optional<ClockQuery> query(std::uint64_t now);
  void reply(const ClockReply& reply, std::uint64_t now);
  // The job is over: nothing is waited for any more.
  void finish() { finished_ = true; }

  // Frames for the viewer; none before the clock is known.
  std::string take(std::uint64_t now);

 private:
  using Item = std::variant<TimelineBatch, TimelineControl>;
  bool clock_is_known() const {
    return same_clock_ || finished_ || offset_.samples() >= kFirstQueries;
  }
  bool hold(Item item, std::size_t bytes);

  const std::string clock_;
  bool same_clock_;
  bool finished_ = false;
  ClockOffset offset_;
  std::optional<std::uint64_t> asked_;  // and not answered yet
  std::uint64_t last_asked_ = 0;
  std::deque<Item> held_;
  std::size_t held_bytes_ = 0;
  std::map<std::uint32_t, std::uint64_t> dropped_;  // by rank; told with its next batch
};

}  // namespace hvdrun
