#include <cstddef>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/catch.h"
#include "tests/unit/other_user.h"
#include "worker/hvd/client/unix_socket.h"

namespace hvdrun {
namespace {

// Takes the name, says so with a byte, and waits until it may go.
int squat(const std::string& name, int say, int wait) {
  const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path + 1, name.data() + 1, name.size() - 1);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size());
  if (!fd || ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      ::listen(fd.get(), 1) != 0 || ::write(say, "x", 1) != 1)
    return 1;
  char byte = 0;
  return ::read(wait, &byte, 1) < 0 ? 1 : 0;
}

TEST_CASE("an agent's name that another user has taken is not trusted", "[unix socket]") {
  if (!test::can_be_other_user("an agent's name that another user has taken is not trusted"))
    return;
  const std::string name = "@hvdrun-test-squatter-" + std::to_string(::getpid());
  int said[2];
  int done[2];
  REQUIRE(::pipe2(said, O_CLOEXEC) == 0);
  REQUIRE(::pipe2(done, O_CLOEXEC) == 0);
  const pid_t squatter = test::fork_as(test::kOtherUser, [&] {
    ::close(done[1]);
    return squat(name, said[1], done[0]);
  });
  char byte = 0;
  REQUIRE(::read(said[0], &byte, 1) == 1);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  CHECK_THROWS_WITH(connect_agent(name, deadline),
                    Catch::Contains("belongs to user 65534") && Catch::Contains("not trusted"));
  ::close(done[1]);
  CHECK(test::wait_for(squatter) == 0);
  ::close(done[0]);
  ::close(said[0]);
  ::close(said[1]);
}

}  // namespace
}  // namespace hvdrun
