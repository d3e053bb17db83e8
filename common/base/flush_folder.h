// A folder's names on the disk: what was renamed in it before outlives a power failure. Blocks; any
// thread. C++17 and without a source, for libhvd_torch too.
#pragma once

#include <cerrno>
#include <fcntl.h>
#include <string>
#include <unistd.h>

#include "common/base/unique_fd.h"

namespace hvdrun {

// 0, or errno. File systems that cannot do it (EINVAL, ENOTSUP: of the network, mostly) are no
// fault, nor is a folder that may be written but not read: the file in it is complete, and they
// have no more to give.
inline int flush_folder(const std::string& folder) {
  const UniqueFd opened(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!opened) return errno == EACCES ? 0 : errno;
  if (::fsync(opened.get()) == 0) return 0;
  return errno == EINVAL || errno == ENOTSUP ? 0 : errno;
}

}  // namespace hvdrun
