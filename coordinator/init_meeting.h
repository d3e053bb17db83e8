// The ranks that have come into hvd::init, from their first word to their agent on: ranks of
// several hosts meet and connect before they are in the fence, and wait there for each other as
// well. One meeting follows the other, each ends as its fence opens. Sans-I/O.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "common/base/time_point.h"

namespace hvdrun {

class InitMeeting {
 public:
  explicit InitMeeting(std::uint32_t size = 0)
      : places_(size, Place::absent), members_(size, true), needed_(size) {}
  // A meeting of these slots alone.
  InitMeeting(std::uint32_t size, const std::vector<std::uint32_t>& members);

  // It has opened its line, or is in the fence.
  void came(std::uint32_t rank);
  // Its line has ended, or it was told that the fence has failed. It was here all the same, until
  // nobody is any more.
  void left(std::uint32_t rank);
  // The fence has opened: all are through, and the next meeting begins.
  void opened();

  std::uint32_t count() const { return here_; }
  bool is_here(std::uint32_t rank) const {
    return rank < places_.size() && places_[rank] == Place::here;
  }
  // In order: those that are here, those that have not been here, and those that were.
  std::vector<std::uint32_t> here() const { return ranks_at(Place::here); }
  std::vector<std::uint32_t> absent() const { return ranks_at(Place::absent); }
  std::vector<std::uint32_t> gone() const { return ranks_at(Place::gone); }

  // Somebody who is needed has ended, and `exited` ranks in all: whether those who are here are to
  // be told now. The others may be about to come, and are waited for a moment, so that the user
  // reads of all that wait.
  bool is_hopeless(std::uint32_t exited, TimePoint now);
  // When to ask that again; none once it was true.
  std::optional<TimePoint> next_deadline() const {
    return hopeless_said_ ? std::nullopt : hopeless_at_;
  }

 private:
  enum class Place : std::uint8_t { absent, here, gone };
  std::vector<std::uint32_t> ranks_at(Place place) const;

  std::vector<Place> places_;
  std::vector<bool> members_;
  std::uint32_t needed_ = 0;
  std::uint32_t here_ = 0;
  std::optional<TimePoint> hopeless_at_;
  bool hopeless_said_ = false;
};

}  // namespace hvdrun
