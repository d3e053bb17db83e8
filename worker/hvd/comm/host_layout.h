// The places of ranks on hosts: hosts in the order of their ranks, each with a row of them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace hvdrun {

class HostLayout {
 public:
  // `counts`: each host's number of ranks, none of them 0.
  explicit HostLayout(std::vector<std::size_t> counts) : counts_(std::move(counts)) {
    for (const std::size_t count : counts_) {
      firsts_.push_back(size_);
      size_ += count;
    }
  }

  std::size_t hosts() const { return counts_.size(); }
  std::size_t size() const { return size_; }
  std::size_t first(std::size_t host) const { return firsts_[host]; }
  std::size_t count(std::size_t host) const { return counts_[host]; }
  std::size_t host_of(std::size_t rank) const {
    const auto next = std::upper_bound(firsts_.begin(), firsts_.end(), rank);
    return static_cast<std::size_t>(next - firsts_.begin()) - 1;
  }
  // Slices into which bytes between hosts are cut. There is one for each rank of a host that has a
  // connection to the rank of the same local number on every other host.
  std::size_t channels() const {
    return std::min(kMaxChannels, *std::min_element(counts_.begin(), counts_.end()));
  }

 private:
  static constexpr std::size_t kMaxChannels = 4;

  std::vector<std::size_t> counts_;
  std::vector<std::size_t> firsts_;
  std::size_t size_ = 0;
};

}  // namespace hvdrun
