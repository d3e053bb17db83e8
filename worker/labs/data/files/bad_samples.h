// Samples that cannot be read: how many, and the first of them by name.
//
// C++17: the labs include this.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

struct BadSamples {
  static constexpr std::size_t kNamed = 3;
  static constexpr std::size_t kMaxLine = 500;  // bytes

  std::size_t count = 0;
  std::vector<std::string> first;  // a line each: the file, and what is wrong with it

  void add(std::string_view line) {
    ++count;
    if (first.size() < kNamed) first.emplace_back(line.substr(0, kMaxLine));
  }
  void add(const BadSamples& more) {
    count += more.count;
    const std::size_t free = std::min(kNamed - first.size(), more.first.size());
    first.insert(first.end(), more.first.begin(),
                 more.first.begin() + static_cast<std::ptrdiff_t>(free));
  }
  // "FILE: why; FILE: why; and 3 more".
  std::string text() const {
    std::string line;
    for (const std::string& one : first) line += (line.empty() ? "" : "; ") + one;
    if (count > first.size()) line += "; and " + std::to_string(count - first.size()) + " more";
    return line;
  }
};

}  // namespace hvdrun
