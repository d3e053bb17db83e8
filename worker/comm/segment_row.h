// Many buffers seen as one row of elements.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "worker/comm/communicator.h"

namespace hvdrun {

class SegmentRow {
 public:
  // The segments must outlive the row. `width`: bytes of an element.
  SegmentRow(const std::vector<BufferPart>& segments, std::size_t width)
      : segments_(segments), width_(width) {
    begins_.reserve(segments.size());
    for (const BufferPart& segment : segments) {
      begins_.push_back(count_);
      count_ += segment.count;
    }
  }

  std::size_t count() const { return count_; }

  // Calls visit(at, part) for the parts of elements [begin, begin + count), in their order; `at`
  // counts from `begin`.
  template <class Visit>
  void visit(std::size_t begin, std::size_t count, const Visit& visit) const {
    if (count == 0) return;
    const auto after = std::upper_bound(begins_.begin(), begins_.end(), begin);
    auto index = static_cast<std::size_t>(after - begins_.begin()) - 1;
    for (std::size_t done = 0; done < count; ++index) {
      const BufferPart& segment = segments_[index];
      const std::size_t skipped = begin + done - begins_[index];
      const std::size_t part = std::min(count - done, segment.count - skipped);
      if (part == 0) continue;
      visit(done, BufferPart{static_cast<const std::byte*>(segment.input) + skipped * width_,
                             static_cast<std::byte*>(segment.output) + skipped * width_, part});
      done += part;
    }
  }

 private:
  const std::vector<BufferPart>& segments_;
  const std::size_t width_;
  std::vector<std::size_t> begins_;
  std::size_t count_ = 0;
};

}  // namespace hvdrun
