// The room for who has connected to a rank and has not proved yet that it is a rank of the job: so
// many, so long. Whoever comes meanwhile waits in the kernel's backlog, since to hang up on a rank
// would fail a job whose only fault is its size. Sans-I/O.
#pragma once

#include <chrono>
#include <cstddef>

namespace hvdrun {

class AcceptRoom {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  static constexpr std::size_t kPlaces = 512;
  // A rank's proof comes in much less.
  static constexpr std::chrono::milliseconds kProofTime{10'000};
  // Once the room is full: a rank says something as soon as it is connected. Whoever it takes
  // longer is hung up on, and dials again.
  static constexpr std::chrono::milliseconds kSilence{250};

  bool has_place() const { return inside_ < places_; }
  bool is_empty() const { return inside_ == 0; }
  void enter() { ++inside_; }
  void leave() { --inside_; }
  // There are no more descriptors: the room is as large as it is full.
  void shrink() { places_ = inside_; }
  void widen() { places_ = kPlaces; }

  // When somebody who came then must go.
  TimePoint leaves_at(TimePoint came, bool has_spoken) const {
    return came + (has_spoken || has_place() ? kProofTime : kSilence);
  }

 private:
  std::size_t places_ = kPlaces;
  std::size_t inside_ = 0;
};

}  // namespace hvdrun
