// The rule by which a job that has failed is started again as a whole (--max-restarts). Sans-I/O.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "common/wire/messages.h"

namespace hvdrun {

// The restarts of a job so far, for the next start.
struct RestartHistory {
  std::uint32_t restarts = 0;  // that were allowed
  std::uint64_t pause_ms = 0;  // before the last of them
  std::uint32_t same = 0;      // times that the failure below has come soon, one after the other
  EndCause cause{};
  ExitKind kind{};
  std::uint32_t value = 0;
  std::string host;  // where that was lost
  template <class V>
  void visit(V& v) {
    v(restarts);
    v(pause_ms);
    v(same);
    v(cause);
    v(kind);
    v(value);
    v(host);
  }
};

class RestartPolicy {
 public:
  struct Limits {
    std::uint32_t restarts = 0;  // 0: nothing is ever started again, and nothing is said of it
  };
  struct Decision {
    std::optional<std::chrono::milliseconds> pause;  // before the next start; none: it is the end
    std::string text;                                // for the user; empty: nothing
  };

  explicit RestartPolicy(Limits limits, RestartHistory history = {})
      : limits_(limits), history_(std::move(history)) {}

  // The job has failed after it ran so long. Once for each start of it.
  Decision on_failure(const JobEnded& verdict, std::chrono::milliseconds ran);
  const RestartHistory& history() const { return history_; }

 private:
  // Counts it among those that have come soon and in the same way.
  void note(const JobEnded& verdict, std::chrono::milliseconds ran);

  const Limits limits_;
  RestartHistory history_;
};

}  // namespace hvdrun
