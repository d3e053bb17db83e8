#include <memory>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include "common/unique_fd.h"
#include "common/unix_listener.h"
#include "tests/unit/other_user.h"

namespace hvdrun {
namespace {

using test::fork_as;
using test::kOtherUser;
using test::wait_for;

// Connects and waits for the other end to close: 0 then, 1 when there is an answer, 2 for a fault.
int knock(const std::string& name) {
  const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto endpoint = unix_endpoint(name);
  if (!fd || ::connect(fd.get(), endpoint.data(), static_cast<socklen_t>(endpoint.size())) != 0)
    return 2;
  char byte = 0;
  const ssize_t got = ::recv(fd.get(), &byte, 1, 0);
  return got == 0 ? 0 : got == 1 ? 1 : 2;
}

TEST_CASE("another user is not let in", "[unix listener]") {
  if (!test::can_be_other_user("another user is not let in")) return;
  const std::string name = "@hvdrun-test-listener-" + std::to_string(::getpid());
  boost::asio::io_context io;
  int peers = 0;
  pid_t peer = 0;
  const UnixListener listener(io, name, [&](const std::unique_ptr<ByteStream>&, pid_t pid) {
    ++peers;
    peer = pid;
  });
  const pid_t stranger = fork_as(kOtherUser, [&] { return knock(name); });
  io.run_for(std::chrono::milliseconds(300));
  CHECK(wait_for(stranger) == 0);
  CHECK(peers == 0);
  const pid_t same = fork_as(::geteuid(), [&] { return knock(name); });
  io.run_for(std::chrono::milliseconds(300));
  CHECK(wait_for(same) == 0);  // the stream is dropped by the callback
  CHECK(peers == 1);
  CHECK(peer == same);
}

}  // namespace
}  // namespace hvdrun
