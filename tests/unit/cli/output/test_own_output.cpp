#include <cerrno>
#include <unistd.h>

#include "cli/output/own_output.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

// No file system at hand fails so; NFS and quotas do.
template <int kError>
int close_with(int fd) {
  ::close(fd);
  errno = kError;
  return kError == 0 ? 0 : -1;
}

TEST_CASE("an error that only the close of stdout tells is not lost", "[output]") {
  CHECK_THROWS_WITH(confirm_output(close_with<ENOSPC>), "stdout: No space left on device");
  CHECK_THROWS_AS(confirm_output(close_with<EDQUOT>), OutputError);
  CHECK_NOTHROW(confirm_output(close_with<0>));
  CHECK_NOTHROW(confirm_output(close_with<EINTR>));
  CHECK_NOTHROW(confirm_output());
  CHECK(::write(STDOUT_FILENO, "", 0) == 0);
}

}  // namespace
}  // namespace hvdrun
