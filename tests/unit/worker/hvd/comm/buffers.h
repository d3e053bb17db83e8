// Buffers of a test: on the heap or in memory that the ranks share.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <vector>

#include "worker/hvd/comm/shm/mapping.h"
#include "worker/hvd/comm/shm/shared_memory.h"

namespace hvdrun::test {

// Where memory comes from that is not the heap. One thread.
class BufferSource {
 public:
  BufferSource() = default;
  BufferSource(const BufferSource&) = delete;
  BufferSource& operator=(const BufferSource&) = delete;
  virtual ~BufferSource() = default;

  virtual char* allocate(std::size_t bytes) = 0;
  virtual void release(char* memory) = 0;
};

class SharedBuffers final : public BufferSource {
 public:
  explicit SharedBuffers(SharedMemory& memory) : memory_(memory) {}

  char* allocate(std::size_t bytes) override {
    auto [address, mapping] = memory_.allocate(bytes);
    auto* const data = static_cast<char*>(address);
    mappings_[data] = std::move(mapping);
    return data;
  }
  void release(char* memory) override {
    memory_.release(memory);
    mappings_.erase(memory);
  }

 private:
  SharedMemory& memory_;
  std::map<char*, std::shared_ptr<const Mapping>> mappings_;
};

// Bytes of a rank, all `fill`; on the heap without a source.
class Buffer {
 public:
  Buffer(std::size_t bytes, char fill, BufferSource* source) : size_(bytes), source_(source) {
    if (source_ != nullptr) {
      data_ = source_->allocate(std::max<std::size_t>(bytes, 1));
    } else {
      heap_.resize(bytes);
      data_ = heap_.data();
    }
    if (bytes > 0) std::memset(data_, fill, bytes);
  }
  ~Buffer() {
    if (source_ != nullptr) source_->release(data_);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  char* data() const { return data_; }
  std::vector<char> copy() const { return {data_, data_ + size_}; }

 private:
  std::size_t size_;
  BufferSource* source_;
  char* data_ = nullptr;
  std::vector<char> heap_;
};

}  // namespace hvdrun::test
