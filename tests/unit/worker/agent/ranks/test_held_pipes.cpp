#include <chrono>
#include <fcntl.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/unique_fd.h"
#include "tests/catch.h"
#include "worker/agent/ranks/held_pipes.h"

namespace hvdrun {
namespace {

using namespace std::chrono_literals;

struct Pipe {
  Pipe() {
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    reading.reset(ends[0]);
    writing.reset(ends[1]);
  }
  UniqueFd reading;
  UniqueFd writing;
};

// A process that has all descriptors that this one has now, until it is destroyed.
class Holder {
 public:
  Holder() : pid(::fork()) {
    if (pid == 0) {
      stay_.writing.reset();
      char byte = 0;
      ::_exit(static_cast<int>(::read(stay_.reading.get(), &byte, 1)));
    }
    stay_.reading.reset();
  }
  ~Holder() {
    stay_.writing.reset();
    ::waitpid(pid, nullptr, 0);
  }
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;

 private:
  Pipe stay_;  // before the process

 public:
  const pid_t pid;
};

TEST_CASE("who holds ranks' outputs open is found", "[held pipes]") {
  Pipe out;
  Pipe err;
  Pipe other;
  HeldPipes held;
  CHECK(held.describe(10s).empty());
  const Holder holder;
  for (Pipe* const pipe : {&out, &err, &other}) pipe->writing.reset();
  held.add(2, OutputStream::out, out.reading.get());
  const std::string holder_text = "process " + std::to_string(holder.pid) + " (";
  auto lines = held.describe(10s);
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].starts_with("the rest of stdout of rank 2 is not shown: " + holder_text));
  CHECK_THAT(lines[0], Catch::EndsWith("), not of this job, holds it open"));
  held.add(3, OutputStream::err, err.reading.get());
  CHECK_THAT(held.describe(10s).front(),
             Catch::Contains(" of stdout of rank 2 and stderr of rank 3 is "));
  held.add(2, OutputStream::err, other.reading.get());
  lines = held.describe(10s);
  REQUIRE(lines.size() == 1);
  CHECK_THAT(lines[0], Catch::Contains(" of stdout of rank 2 and stderr of ranks 2, 3 is "));
  HeldPipes both;
  both.add(4, OutputStream::out, out.reading.get());
  both.add(4, OutputStream::err, err.reading.get());
  CHECK_THAT(both.describe(10s).front(), Catch::Contains(" of stdout and stderr of rank 4 is "));
}

// Nor is somebody who could only read it.
TEST_CASE("who holds them and cannot be seen is said to be somebody", "[held pipes]") {
  Pipe out;
  out.writing.reset();
  const Holder reader;
  HeldPipes held;
  held.add(7, OutputStream::out, out.reading.get());
  const auto lines = held.describe(10s);
  REQUIRE(lines.size() == 1);
  CHECK(lines[0] ==
        "the rest of stdout of rank 7 is not shown: a process that cannot be seen from here "
        "(another user's, say) holds it open");
}

}  // namespace
}  // namespace hvdrun
