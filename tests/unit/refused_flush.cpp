#include "tests/unit/refused_flush.h"

#include <cerrno>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

int folder_error = 0;
int folders_asked = 0;

}  // namespace

// In place of the C library's.
extern "C" int fsync(int fd) {
  struct stat info {};
  if (folder_error != 0 && ::fstat(fd, &info) == 0 && S_ISDIR(info.st_mode)) {
    ++folders_asked;
    errno = folder_error;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_fsync, fd));
}

namespace hvdrun::test {

RefusedFlush::RefusedFlush(int error) {
  folder_error = error;
  folders_asked = 0;
}

RefusedFlush::~RefusedFlush() { folder_error = 0; }

int RefusedFlush::asked() const { return folders_asked; }

}  // namespace hvdrun::test
