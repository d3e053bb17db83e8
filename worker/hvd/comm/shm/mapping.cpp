#include "worker/hvd/comm/shm/mapping.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include <hvd/hvd.h>

#include "common/base/descriptor_limit.h"
#include "common/base/unique_fd.h"

namespace hvdrun {
namespace {

[[noreturn]] void fail(const std::string& what) {
  throw hvd::Error(hvd::ErrorCode::unavailable, "shared memory: " + what);
}

// The reason why pages of this file may be missing when they are first touched, which would be
// SIGBUS. Null: they cannot be. A memfd (we seal ours) is of a file system of the kernel's own that
// has no limit. Where a cgroup has no memory left its OOM killer comes, as for any page. Only
// strict accounting counts its pages one by one. A file of /dev/shm
// (worker/agent/ranks/segments.cpp) has what is mounted there, 64 MiB in a container.
const char* why_pages_may_be_missing(int fd) {
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0)
    return "in /dev/shm, which stands in for memfd_create here; make it larger (docker run "
           "--shm-size)";
  static const bool is_strict = [] {
    const UniqueFd file(::open("/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC));
    char mode = '0';
    return file && ::read(file.get(), &mode, 1) == 1 && mode == '2';
  }();
  return is_strict ? "by this machine's limit on memory (vm.overcommit_memory is 2)" : nullptr;
}

// Pages that are there stay as they are. In pieces, as a signal makes the kernel begin one anew:
// where they come all the time, in smaller ones.
void take_pages(int fd, std::size_t bytes) {
  constexpr std::size_t kPiece = 16U << 20;
  constexpr std::size_t kSmallest = 64U << 10;
  const char* const why = why_pages_may_be_missing(fd);
  if (why == nullptr) return;
  std::size_t most = kPiece;
  for (std::size_t at = 0; at < bytes;) {
    const std::size_t piece = std::min(most, bytes - at);
    if (::fallocate(fd, 0, static_cast<off_t>(at), static_cast<off_t>(piece)) == 0) {
      at += piece;
      most = std::min(2 * most, kPiece);
    } else if (const int error = errno; error == EINTR) {
      most = std::max(most / 2, kSmallest);
    } else {
      fail("no room for " + std::to_string(bytes) + " bytes " + why + ": " +
           system_fault_text(error));
    }
  }
}

}  // namespace

Mapping::Mapping(int flags, int fd, std::size_t bytes) : size_(bytes) {
  void* address = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
  if (address == MAP_FAILED) {
    const int error = errno;
    fail("cannot map " + std::to_string(bytes) + " bytes: " + system_fault_text(error));
  }
  data_ = static_cast<std::byte*>(address);
}

Mapping Mapping::of_file(int fd, std::size_t bytes) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) {
    const int error = errno;
    fail(system_fault_text(error));
  }
  // Touching pages behind the end of the file would be SIGBUS.
  if (status.st_size < 0 || static_cast<std::size_t>(status.st_size) < bytes) {
    fail("the segment has " + std::to_string(status.st_size) + " bytes, " + std::to_string(bytes) +
         " are needed");
  }
  take_pages(fd, bytes);
  return {MAP_SHARED, fd, bytes};
}

// Strict accounting counts all of it here, so its pages are there when they are touched.
Mapping Mapping::anonymous(std::size_t bytes) { return {MAP_SHARED | MAP_ANONYMOUS, -1, bytes}; }

Mapping::Mapping(Mapping&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

Mapping::~Mapping() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

}  // namespace hvdrun
