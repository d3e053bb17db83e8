#include "cli/output/unread_input.h"

#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace hvdrun {

bool has_unread_input(int fd) {
  struct stat info {};
  if (::fstat(fd, &info) != 0) return false;
  if (S_ISREG(info.st_mode)) {
    const off_t at = ::lseek(fd, 0, SEEK_CUR);
    // Behind its beginning it is the input of a loop or a script around hvdrun.
    return at == 0 && info.st_size > 0;
  }
  int waiting = 0;
  return (S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode)) &&
         ::ioctl(fd, FIONREAD, &waiting) == 0 && waiting > 0;
}

}  // namespace hvdrun
