#include "worker/comm/mapping.h"

#include <cerrno>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <system_error>
#include <utility>

#include <hvd/hvd.h>

namespace hvdrun {
namespace {

[[noreturn]] void fail(const std::string& what) {
  throw hvd::Error(hvd::ErrorCode::unavailable, "shared memory: " + what);
}

}  // namespace

Mapping::Mapping(int flags, int fd, std::size_t bytes) : size_(bytes) {
  void* address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
  if (address == MAP_FAILED) {
    const int error = errno;
    fail("cannot map " + std::to_string(bytes) +
         " bytes: " + std::system_category().message(error));
  }
  data_ = static_cast<std::byte*>(address);
}

Mapping Mapping::of_file(int fd, std::size_t bytes) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) {
    const int error = errno;
    fail(std::system_category().message(error));
  }
  // Touching pages behind the end of the file would be SIGBUS.
  if (status.st_size < 0 || static_cast<std::size_t>(status.st_size) < bytes) {
    fail("the segment has " + std::to_string(status.st_size) + " bytes, " + std::to_string(bytes) +
         " are needed");
  }
  return {MAP_SHARED, fd, bytes};
}

Mapping Mapping::anonymous(std::size_t bytes) { return {MAP_SHARED | MAP_ANONYMOUS, -1, bytes}; }

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Mapping::~Mapping() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

}  // namespace hvdrun
