// Checks that the LibTorch probes of real jobs have in common: the first difference ends the rank
// with its words and exit code 1.
#pragma once

#include <cstdio>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>

#include <hvd/hvd.h>

namespace hvdrun::test {

inline void expect(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error("rank " + std::to_string(hvd::rank()) + ": " + what);
}

inline std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const hvd::Error& error) {
    return error.what();
  }
  return "no error";
}

// The exit code of the rank; between hvd::init() and hvd::shutdown().
inline int run_checks(const std::function<void()>& checks) {
  try {
    hvd::init();
    checks();
    hvd::shutdown();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  std::printf("everything as promised\n");
  return 0;
}

}  // namespace hvdrun::test
