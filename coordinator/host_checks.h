// The hosts' findings about the programs that they are to start: nothing starts anywhere unless it
// can start everywhere. Sans-I/O.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/host/topology.h"
#include "common/wire/messages.h"

namespace hvdrun {

class HostChecks {
 public:
  // `wanted`: for each host whether it looks; hosts beyond its end do not.
  explicit HostChecks(std::vector<bool> wanted);

  bool wants(std::uint32_t host) const { return host < wanted_.size() && wanted_[host]; }
  // Hosts without a rank are not asked.
  void ask(std::uint32_t host);
  bool waits_for(std::uint32_t host) const;
  bool all_answered() const { return waiting_ == 0; }
  // An answer that nobody asked for, or an exit code that none of these problems has: a fault.
  Errc answer(std::uint32_t host, const LaunchChecked& message);
  // Every problem once, with its hosts, and the exit code of the first; nothing: all is well.
  std::optional<JobEnded> verdict(const std::vector<HostSlots>& hosts) const;

 private:
  enum class State : std::uint8_t { unasked, asked, answered };
  struct Problem {
    std::uint32_t host;
    LaunchChecked message;
  };

  std::vector<bool> wanted_;
  std::vector<State> states_;
  std::vector<Problem> problems_;
  std::size_t waiting_ = 0;
};

}  // namespace hvdrun
