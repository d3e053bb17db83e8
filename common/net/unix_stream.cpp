#include "common/net/unix_stream.h"

#include <cerrno>
#include <cstring>
#include <sys/socket.h>
#include <system_error>
#include <utility>

#include <boost/asio/error.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/write.hpp>

namespace hvdrun {
namespace {

namespace asio = boost::asio;

class UnixStream final : public ByteStream {
 public:
  UnixStream(asio::io_context& io, UniqueFd fd)
      : socket_(io, asio::local::stream_protocol(), fd.release()) {}

  void async_read_some(asio::mutable_buffer buffer, Callback callback) override {
    socket_.async_read_some(asio::buffer(buffer), std::move(callback));
  }
  void async_write(asio::const_buffer buffer, Callback callback) override {
    asio::async_write(socket_, asio::buffer(buffer), std::move(callback));
  }
  void async_write_with_fd(asio::const_buffer buffer, int fd, Callback callback) override {
    socket_.async_wait(socket_.wait_write,
                       [this, buffer, fd, callback = std::move(callback)](const auto& ec) {
                         if (ec) return callback(ec, 0);
                         const ssize_t sent = send_first_byte(buffer, fd);
                         if (sent == 1) return async_write(buffer + 1, callback);
                         if (errno == EAGAIN) return async_write_with_fd(buffer, fd, callback);
                         callback({errno, boost::system::system_category()}, 0);
                       });
  }
  void shutdown_send() override {
    boost::system::error_code ignored;
    socket_.shutdown(asio::socket_base::shutdown_send, ignored);
  }
  void close() override {
    boost::system::error_code ignored;
    socket_.close(ignored);
  }

 private:
  ssize_t send_first_byte(asio::const_buffer buffer, int fd) {
    iovec iov{const_cast<void*>(buffer.data()), 1};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &iov;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* const header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
    return ::sendmsg(socket_.native_handle(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  }

  asio::local::stream_protocol::socket socket_;
};

}  // namespace

void ByteStream::keep_trying_for(std::chrono::milliseconds) {}

// NOLINTNEXTLINE(performance-unnecessary-value-param): those who override it keep the callback
void ByteStream::async_write_with_fd(asio::const_buffer, int, Callback callback) {
  callback(asio::error::operation_not_supported, 0);
}

std::unique_ptr<ByteStream> make_unix_stream(asio::io_context& io, UniqueFd fd) {
  return std::make_unique<UnixStream>(io, std::move(fd));
}

std::pair<UniqueFd, UniqueFd> make_socket_pair() {
  int fds[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0)
    throw std::system_error(errno, std::system_category(), "socketpair");
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

}  // namespace hvdrun
