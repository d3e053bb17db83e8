#include <memory>
#include <string>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <vector>

#include "common/base/unique_fd.h"
#include "common/net/unix_listener.h"
#include "tests/catch.h"
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

TEST_CASE("out of descriptors it says so once, and goes on", "[unix listener]") {
  const std::string name = "@hvdrun-test-shortage-" + std::to_string(::getpid());
  boost::asio::io_context io;
  int peers = 0;
  std::vector<std::string> troubles;
  const UnixListener listener(
      io, name, [&](const std::unique_ptr<ByteStream>&, pid_t) { ++peers; },
      [&](const std::string& text) { troubles.push_back(text); });
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &before) == 0);
  boost::asio::local::stream_protocol::socket peer(io);
  peer.connect(unix_endpoint(name));
  rlimit none = before;
  none.rlim_cur = static_cast<rlim_t>(peer.native_handle()) + 1;  // the lowest free one
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &none) == 0);
  for (int i = 0; i < 100 && troubles.empty(); ++i) io.run_for(std::chrono::milliseconds(20));
  io.run_for(std::chrono::milliseconds(250));  // it tries again, and fails again
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &before) == 0);
  REQUIRE(troubles.size() == 1);
  CHECK_THAT(troubles[0], Catch::StartsWith("cannot accept a connection of this machine: Too many "
                                            "open files; the limit is ") &&
                              Catch::EndsWith("; trying again"));
  CHECK(peers == 0);
  for (int i = 0; i < 100 && peers == 0; ++i) io.run_for(std::chrono::milliseconds(20));
  CHECK(peers == 1);
}

}  // namespace
}  // namespace hvdrun
