// All members of a large job in two processes: each makes the requests that a Gloo member makes, in
// its order, for its global, local and cross context.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace hvdrun::test {

struct CrowdOptions {
  std::string address;
  std::uint16_t port = 0;
  std::uint32_t hosts = 0;  // h0, h1, ...
  std::uint32_t slots = 0;  // of each
  std::chrono::seconds limit{};
};

// Prints "crowd of N: R requests, L lost, T ms"; true when all members found all others.
bool run_crowd(const CrowdOptions& options);

}  // namespace hvdrun::test
