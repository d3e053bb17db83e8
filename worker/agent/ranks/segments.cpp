#include "worker/agent/ranks/segments.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

#include "common/base/limits.h"

namespace hvdrun {
namespace {

// Memory that no name leads to. Where a filter of system calls is older than memfd_create: an
// unnamed file of /dev/shm, which cannot be sealed.
std::error_code make_segment(std::uint64_t size, UniqueFd& made) {
  made.reset(::memfd_create("hvdrun", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const bool can_seal = static_cast<bool>(made);
  if (!can_seal && (errno == ENOSYS || errno == EPERM))
    made.reset(::open("/dev/shm", O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC, 0600));
  if (!made || ::ftruncate(made.get(), static_cast<off_t>(size)) != 0 ||
      (can_seal &&
       ::fcntl(made.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0))
    return {errno, std::system_category()};
  return {};
}

}  // namespace

std::error_code Segments::open(const std::string& name, std::uint64_t size, int& fd) {
  const auto known = entries_.find(name);
  if (known != entries_.end()) {
    if (known->second.size != size) return Errc::mismatch;
    fd = known->second.fd.get();
    return {};
  }
  if (size == 0 || size > limits::kMaxSegmentBytes || entries_.size() >= limits::kMaxSegments ||
      name.empty() || name.size() > limits::kMaxStoreKey)
    return Errc::limit_exceeded;
  UniqueFd made;
  if (const std::error_code ec = make_segment(size, made)) return ec;
  fd = made.get();
  entries_.emplace(name, Entry{std::move(made), size});
  return {};
}

}  // namespace hvdrun
