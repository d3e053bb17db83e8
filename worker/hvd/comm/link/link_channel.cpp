#include "worker/hvd/comm/link/link_channel.h"

#include <sys/socket.h>

namespace hvdrun {

ssize_t LinkChannel::send(const iovec* parts, std::size_t count) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(parts);
  message.msg_iovlen = count;
  return ::sendmsg(fd(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

ssize_t LinkChannel::receive(const iovec* parts, std::size_t count) {
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(parts);
  message.msg_iovlen = count;
  return ::recvmsg(fd(), &message, MSG_DONTWAIT);
}

}  // namespace hvdrun
