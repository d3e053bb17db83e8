// The errors that end a launch before it starts, by whose they are.
#pragma once

#include <stdexcept>

namespace hvdrun {

// Bad input: what() is one or two lines for the user; the exit code is 64.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// A host cannot be used; the exit code is 69.
class HostError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace hvdrun
