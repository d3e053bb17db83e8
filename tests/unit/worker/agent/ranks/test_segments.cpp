#include <cerrno>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/limits.h"
#include "tests/catch.h"
#include "worker/agent/ranks/segments.h"

namespace hvdrun {
namespace {

TEST_CASE("a segment is made once, zeroed, and cannot be resized", "[segments]") {
  Segments segments;
  int first = -1;
  int second = -1;
  REQUIRE_FALSE(segments.open("world", 8192, first));
  REQUIRE_FALSE(segments.open("world", 8192, second));
  CHECK(first == second);
  struct stat info {};
  REQUIRE(::fstat(first, &info) == 0);
  CHECK(info.st_size == 8192);
  CHECK(::ftruncate(first, 0) == -1);
  CHECK(errno == EPERM);
  void* const memory = ::mmap(nullptr, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, first, 0);
  REQUIRE(memory != MAP_FAILED);
  CHECK(static_cast<char*>(memory)[8191] == 0);
  ::munmap(memory, 8192);
}

TEST_CASE("segments that cannot be are refused", "[segments]") {
  Segments segments;
  int fd = -1;
  REQUIRE_FALSE(segments.open("a", 4096, fd));
  CHECK(segments.open("a", 8192, fd) == Errc::mismatch);
  CHECK(segments.open("b", 0, fd) == Errc::limit_exceeded);
  CHECK(segments.open("b", limits::kMaxSegmentBytes + 1, fd) == Errc::limit_exceeded);
  CHECK(segments.open("", 1, fd) == Errc::limit_exceeded);
  CHECK(segments.open(std::string(limits::kMaxStoreKey + 1, 'x'), 1, fd) == Errc::limit_exceeded);
}

}  // namespace
}  // namespace hvdrun
