// The decision whether and when a host that could not be opened is tried again. An sshd that hangs
// up at once has many callers: a few tries soon, each later than the one before. A host may not be
// there yet: it is still booting, its name is not known yet. It is tried until the start timeout,
// where the user has said how long that is. All else is final. Sans-I/O.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace hvdrun {

class OpeningRetry {
 public:
  struct Fault {
    bool hung_up = false;        // before it knew who calls
    bool not_there_yet = false;  // nobody answered who could have refused
  };
  struct Again {
    std::chrono::milliseconds pause{};
    // It stays among the hosts that are being opened, so that these become fewer.
    bool keeps_place = false;
    bool is_news = false;  // the first time that it is not there: the user is told once
  };

  // `waits`: for hosts that are not there yet. `number`: hosts of different ones are not tried all
  // at the same moment.
  OpeningRetry(bool waits, std::uint32_t number) : waits_(waits), spread_(number % kSpread) {}

  // Nothing: it is not tried again.
  std::optional<Again> failed(const Fault& fault);

 private:
  static constexpr std::uint32_t kSpread = 16;
  static constexpr int kTries = 7;  // of one that hangs up
  static constexpr std::chrono::milliseconds kFirstPause{100};
  static constexpr std::chrono::milliseconds kFirstWait{500};
  static constexpr std::chrono::milliseconds kLongestWait{2'000};

  std::chrono::milliseconds spread(std::chrono::milliseconds pause) const;

  bool waits_;
  std::uint32_t spread_;
  int hung_up_ = 0;  // times in a row
  std::chrono::milliseconds wait_{};
};

}  // namespace hvdrun
