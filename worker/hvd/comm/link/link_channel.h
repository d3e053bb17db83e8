// The carrier of a data connection's bytes: a socket as it is, or TLS over one. One thread; nothing
// here waits.
#pragma once

#include <cstddef>
#include <limits>
#include <sys/types.h>
#include <sys/uio.h>
#include <utility>

#include "common/base/unique_fd.h"

namespace hvdrun {

class LinkChannel {
 public:
  explicit LinkChannel(UniqueFd socket) : socket_(std::move(socket)) {}
  virtual ~LinkChannel() = default;
  LinkChannel(const LinkChannel&) = delete;
  LinkChannel& operator=(const LinkChannel&) = delete;

  int fd() const { return socket_.get(); }

  // As sendmsg and recvmsg do: how many bytes were moved, 0 at the end of what comes, or -1 and
  // errno, EAGAIN when nothing can be moved now. After EAGAIN the same bytes must be sent again
  // first.
  virtual ssize_t send(const iovec* parts, std::size_t count);
  virtual ssize_t receive(const iovec* parts, std::size_t count);
  // One call sends so much at most.
  virtual std::size_t most() const { return std::numeric_limits<std::size_t>::max(); }
  // Bytes that must be sent again are in the way of any others.
  virtual bool in_the_middle() const { return false; }

 private:
  const UniqueFd socket_;
};

}  // namespace hvdrun
