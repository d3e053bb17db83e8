// LibTorch and Catch2 together: LibTorch may bring glog, whose CHECK() ends the process and would
// take the place of Catch2's.
#pragma once

#include <functional>
#include <string>

#include <hvd/torch.h>

#undef CHECK

#include "tests/catch.h"

namespace hvdrun::test {

// The words of the hvd::Error that `f` throws; its code is checked.
inline std::string error_of(const std::function<void()>& f,
                            hvd::ErrorCode code = hvd::ErrorCode::invalid_argument) {
  try {
    f();
  } catch (const hvd::Error& error) {
    CHECK(error.code() == code);
    return error.what();
  }
  return "no error";
}

}  // namespace hvdrun::test
