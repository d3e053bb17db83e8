// A connected stream of bytes, whatever carries it: a Unix socket, or TLS over TCP. Callbacks run
// on the io_context's thread; one read and one write may be pending at a time. After close() the
// pending callbacks come with operation_aborted.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include <boost/asio/buffer.hpp>
#include <boost/system/error_code.hpp>

namespace hvdrun {

class ByteStream {
 public:
  using Callback = std::function<void(const boost::system::error_code&, std::size_t)>;

  virtual ~ByteStream() = default;
  virtual void async_read_some(boost::asio::mutable_buffer buffer, Callback callback) = 0;
  // Writes all of the buffer.
  virtual void async_write(boost::asio::const_buffer buffer, Callback callback) = 0;
  // Writes all of the buffer, with a copy of descriptor `fd` attached to its first byte. Only Unix
  // sockets can; the others fail with operation_not_supported.
  virtual void async_write_with_fd(boost::asio::const_buffer buffer, int fd, Callback callback);
  // The other side reads to the end of what was written, then the end of the stream.
  virtual void shutdown_send() = 0;
  // The connection may break once what was written has not been acknowledged for so long, and not
  // before; until then it is sent again at least every second. Only where a network lies between.
  virtual void keep_trying_for(std::chrono::milliseconds time);
  virtual void close() = 0;
  // This side's address: "10.0.0.1", "2001:db8::1". Empty when it is no network connection.
  virtual std::string local_ip() const { return {}; }
};

}  // namespace hvdrun
