#include "worker/agent/segments.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

#include "common/limits.h"

namespace hvdrun {

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
  UniqueFd made(::memfd_create("hvdrun", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!made || ::ftruncate(made.get(), static_cast<off_t>(size)) != 0 ||
      ::fcntl(made.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    return {errno, std::system_category()};
  fd = made.get();
  entries_.emplace(name, Entry{std::move(made), size});
  return {};
}

}  // namespace hvdrun
