// The bytes of another rank, whole and in pieces (of the size that the first byte says): the same
// comes of them.
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <unistd.h>

#include <hvd/hvd.h>

#include "common/base/unique_fd.h"
#include "worker/hvd/comm/link/link.h"
#include "worker/hvd/comm/link/link_handshake.h"

namespace {

using namespace hvdrun;

// The work of a link on them, in words.
std::string receive(std::string_view bytes, std::size_t piece) {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) != 0) return "no sockets";
  const UniqueFd peer(fds[1]);
  Link link(UniqueFd(fds[0]), 1);
  std::string first(24, '.');
  std::string second(9000, '.');
  std::string third(1, '.');
  link.receive(7, first.data(), first.size());
  link.receive(7, second.data(), second.size());
  std::string said;
  // A link that waits for somebody to want what it has does not read, and many small pieces fill
  // the socket then: they go on their way when it reads again, or never if it has failed.
  const auto send = [&] {
    for (bool full = false; !bytes.empty();) {
      const std::string_view part = bytes.substr(0, piece);
      const ssize_t sent = ::send(peer.get(), part.data(), part.size(), MSG_NOSIGNAL);
      if (sent <= 0 && full) return;
      full = sent <= 0;
      if (sent > 0) bytes.remove_prefix(static_cast<std::size_t>(sent));
      link.progress();
    }
  };
  try {
    send();
    // One that is wanted late.
    link.receive(8, third.data(), third.size());
    link.progress();
    send();
  } catch (const hvd::Error& error) {
    said = error.what();
  }
  if (link.failure()) said += std::string("; failure: ") + link.failure()->what();
  return said + "; " + std::to_string(link.unreceived()) + first + second + third;
}

std::string shake_hands(std::string_view bytes) {
  LinkHandshake handshake =
      LinkHandshake::accepting(std::string(32, 'k'), {1, 0, 1}, std::string(16, 'n'));
  while (handshake.state() == LinkHandshake::State::busy && bytes.size() >= handshake.wanted()) {
    const std::size_t wanted = handshake.wanted();
    handshake.feed(bytes.substr(0, wanted));
    bytes.remove_prefix(wanted);
  }
  return handshake.take_output();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kMost = 60'000;  // a socket takes them without a reader
  if (size < 1 || size > kMost) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::string whole = receive(bytes, bytes.size() + 1);
  assert(receive(bytes, data[0] + std::size_t{1}) == whole);
  static_cast<void>(shake_hands(bytes));
  return 0;
}
