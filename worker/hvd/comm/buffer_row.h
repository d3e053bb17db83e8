// Many buffers seen as one row of elements.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "worker/hvd/comm/message_memory.h"
#include "worker/hvd/comm/reduce/copy.h"

namespace hvdrun {

// A part of an operation on many buffers.
struct BufferPart {
  const void* input;
  void* output;  // may be null where only the inputs matter
  std::size_t count;
};

class BufferRow {
 public:
  // `width`: bytes of an element.
  BufferRow(const std::vector<BufferPart>& parts, std::size_t width) : width_(width) {
    parts_.reserve(parts.size());
    begins_.reserve(parts.size());
    for (const BufferPart& part : parts) add(part);
  }
  BufferRow(const BufferPart& part, std::size_t width) : width_(width) { add(part); }

  std::size_t count() const { return count_; }
  std::size_t width() const { return width_; }

  // Calls visit(at, part) for the parts of elements [begin, begin + count), in their order; `at`
  // counts from `begin`. What lies in a row in memory as well is one part.
  template <class Visit>
  void visit(std::size_t begin, std::size_t count, const Visit& visit) const {
    if (count == 0) return;
    std::size_t index = index_of(begin);
    for (std::size_t done = 0; done < count; ++index) {
      const std::size_t skipped = begin + done - begins_[index];
      const std::size_t size = std::min(count - done, parts_[index].count - skipped);
      visit(done, part_of(index, skipped, size));
      done += size;
    }
  }

  // These elements, where they are one part; with count 0: a part without memory.
  std::optional<BufferPart> whole(std::size_t begin, std::size_t count) const {
    if (count == 0) return BufferPart{nullptr, nullptr, 0};
    const std::size_t index = index_of(begin);
    const std::size_t skipped = begin - begins_[index];
    if (parts_[index].count - skipped < count) return std::nullopt;
    return part_of(index, skipped, count);
  }

  MessageMemory inputs(std::size_t begin, std::size_t count) const {
    MessageMemory memory;
    visit(begin, count, [&](std::size_t /*at*/, const BufferPart& part) {
      memory.add(part.input, part.count * width_);
    });
    return memory;
  }
  MessageMemory outputs(std::size_t begin, std::size_t count) const {
    MessageMemory memory;
    visit(begin, count, [&](std::size_t /*at*/, const BufferPart& part) {
      memory.add(part.output, part.count * width_);
    });
    return memory;
  }

  // Copies inputs to `target`, or `source` to outputs.
  void copy_inputs(std::size_t begin, std::size_t count, std::byte* target,
                   Copy copy = copy_bytes) const {
    visit(begin, count, [&](std::size_t at, const BufferPart& part) {
      copy(target + at * width_, static_cast<const std::byte*>(part.input), part.count * width_);
    });
  }
  void copy_outputs(std::size_t begin, std::size_t count, const std::byte* source,
                    Copy copy = copy_bytes) const {
    visit(begin, count, [&](std::size_t at, const BufferPart& part) {
      copy(static_cast<std::byte*>(part.output), source + at * width_, part.count * width_);
    });
  }

 private:
  void add(const BufferPart& part) {
    if (part.count == 0) return;
    count_ += part.count;
    if (!parts_.empty() && continues(parts_.back(), part)) {
      parts_.back().count += part.count;
      return;
    }
    parts_.push_back(part);
    begins_.push_back(count_ - part.count);
  }
  bool continues(const BufferPart& part, const BufferPart& next) const {
    const std::size_t bytes = part.count * width_;
    return static_cast<const std::byte*>(part.input) + bytes == next.input &&
           (part.output == nullptr ? next.output == nullptr
                                   : static_cast<std::byte*>(part.output) + bytes == next.output);
  }
  std::size_t index_of(std::size_t element) const {
    const auto after = std::upper_bound(begins_.begin(), begins_.end(), element);
    return static_cast<std::size_t>(after - begins_.begin()) - 1;
  }
  BufferPart part_of(std::size_t index, std::size_t skipped, std::size_t count) const {
    const BufferPart& part = parts_[index];
    auto* const output = static_cast<std::byte*>(part.output);
    return {static_cast<const std::byte*>(part.input) + skipped * width_,
            output == nullptr ? nullptr : output + skipped * width_, count};
  }

  const std::size_t width_;
  std::vector<BufferPart> parts_;  // none is empty
  std::vector<std::size_t> begins_;
  std::size_t count_ = 0;
};

}  // namespace hvdrun
