// Images looked at before anything is done with them, in a fraction of the time that decoding
// takes.
//
// C++17: the labs include this.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "worker/labs/data/files/bad_samples.h"

namespace hvdrun {

class ImageSource;

// `count` bytes from `at` on; fewer where the file ends or cannot be read.
using ReadPart = std::function<std::string(std::uint64_t at, std::size_t count)>;

// True when a file of `size` bytes begins as a JPEG or PNG within the limits does, and ends as one
// does. Whoever wants to know of another one decodes it: some are good.
bool looks_whole(std::uint64_t size, const ReadPart& read);

struct LookOver {
  // The share of one rank: the images `part`, `part + parts` and so on.
  std::size_t part = 0;
  std::size_t parts = 1;
  std::size_t threads = 1;
  std::chrono::steady_clock::time_point until;  // what is not looked at by then is left
};
// Those that cannot be read: each that does not look whole is decoded.
BadSamples look_over(const ImageSource& source, const LookOver& how);

}  // namespace hvdrun
