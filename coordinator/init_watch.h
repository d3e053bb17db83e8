// Some ranks wait in an init for others: who for whom, since when, when to say so, when it is too
// long. Sans-I/O.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/base/time_point.h"

namespace hvdrun {

class InitWatch {
 public:
  enum class Say : std::uint8_t { nothing, look, warning, too_long };

  // `call` is what the user's program calls, for messages. `limit` is how long anybody may wait; 0:
  // for ever. The first warning comes after 10 s, or `warning`, if that is earlier and not 0; each
  // next one after twice as long. Where ranks wait for `own_limit` at most, and are gone before the
  // first warning, somebody has to look at them without a word: after half of that. 0: unknown.
  InitWatch(std::string call, std::chrono::milliseconds limit,
            std::chrono::milliseconds warning = {}, std::chrono::milliseconds own_limit = {});

  // After every change: which ranks wait now, and for which. Nobody waits: both are empty.
  void update(std::vector<std::uint32_t> waiting, std::vector<std::uint32_t> missing,
              TimePoint now);
  const std::vector<std::uint32_t>& waiting() const { return waiting_; }
  const std::vector<std::uint32_t>& missing() const { return missing_; }
  const std::string& call() const { return call_; }

  // The thing to be said now; too_long once.
  Say tick(TimePoint now);
  // "2 ranks wait in hvd::init since 10 s for rank 2", while somebody waits.
  std::string warning(TimePoint now) const;
  // The same in other numbers and words, where ranks wait for what is no missing rank.
  std::string warning(std::size_t waiting, const std::string& for_whom, TimePoint now) const;
  // Nobody has waited until now.
  void begin_again(TimePoint now);
  // When tick() wants to be called at the latest.
  std::optional<TimePoint> next_deadline() const;

 private:
  // The time that somebody has waited without a break.
  TimePoint::duration waited(TimePoint now) const { return now - since_.value_or(now); }

  std::string call_;
  std::chrono::milliseconds limit_;
  std::chrono::milliseconds first_warning_;
  std::chrono::milliseconds first_look_;  // 0: none
  std::vector<std::uint32_t> waiting_;
  std::vector<std::uint32_t> missing_;
  std::optional<TimePoint> since_;
  std::optional<TimePoint> warning_;
  std::optional<TimePoint> look_;
  bool too_long_said_ = false;
};

}  // namespace hvdrun
