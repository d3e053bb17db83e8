// Entries that a listing of a folder has passed over: how many of each kind.
//
// C++17: the labs include this.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace hvdrun {

class PassedOver {
 public:
  // `many`: what several of them are called.
  void add(const std::string& one, const std::string& many) {
    const auto known = std::find_if(kinds_.begin(), kinds_.end(),
                                    [&](const Kind& kind) { return kind.one == one; });
    if (known != kinds_.end()) {
      ++known->count;
    } else if (kinds_.size() < kMaxKinds) {
      kinds_.push_back({1, one, many});
    } else {
      ++others_;
    }
  }
  // "3 .webp, 2 .gif, 1 dead link", the most frequent first; empty: nothing.
  std::string text() const {
    std::vector<Kind> sorted = kinds_;
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const Kind& a, const Kind& b) { return a.count > b.count; });
    if (others_ > 0) sorted.push_back({others_, "other", "others"});
    std::string line;
    for (const Kind& kind : sorted)
      line += (line.empty() ? "" : ", ") + std::to_string(kind.count) + " " +
              (kind.count == 1 ? kind.one : kind.many);
    return line;
  }

 private:
  static constexpr std::size_t kMaxKinds = 10;
  struct Kind {
    std::size_t count;
    std::string one;
    std::string many;
  };
  std::vector<Kind> kinds_;
  std::size_t others_ = 0;
};

}  // namespace hvdrun
