// A shared memory mapping, unmapped in the destructor.
#pragma once

#include <cstddef>

namespace hvdrun {

class Mapping {
 public:
  // Maps the first `bytes` of the file; throws Error(unavailable) when it is shorter, or when not
  // all of its pages could be had later: to touch one that cannot is SIGBUS.
  static Mapping of_file(int fd, std::size_t bytes);
  // Zeroed memory that only this process and its later children share.
  static Mapping anonymous(std::size_t bytes);
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&&) = delete;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  Mapping(int flags, int fd, std::size_t bytes);
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace hvdrun
