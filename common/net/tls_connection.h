// TLS over a TCP socket, without buffers of its own: OpenSSL reads and writes the socket itself,
// and frees its record buffers when nothing is under way. An idle connection so costs less than
// 20 KB, where Asio's SSL stream keeps 68 KiB of buffers more; a coordinator has one for each host.
//
// One thread. Callbacks never come from within the call that asks for them, and all come: after
// close() with operation_aborted, or not at all when the io_context ends before.
#pragma once

#include <functional>
#include <memory>

#include <boost/asio/ip/tcp.hpp>
#include <openssl/types.h>

#include "common/net/byte_stream.h"
#include "common/net/tls_settings.h"

namespace hvdrun {

// OpenSSL as programs link it.
const TlsFunctions& linked_tls();

class TlsConnection : public std::enable_shared_from_this<TlsConnection> {
 public:
  using Done = std::function<void(const boost::system::error_code&)>;
  using Callback = ByteStream::Callback;

  // `context`, of set_up_tls_context, must outlive the connection. Throws std::bad_alloc.
  TlsConnection(boost::asio::ip::tcp::socket socket, SSL_CTX* context);
  ~TlsConnection();
  TlsConnection(const TlsConnection&) = delete;
  TlsConnection& operator=(const TlsConnection&) = delete;

  boost::asio::ip::tcp::socket& socket() { return socket_; }
  // On a connected socket, before anything is read or written; `key` outlives it. protocol_error:
  // the two do not speak the same TLS or have not the same key; eof: the other side hung up.
  void async_handshake(TlsEnd end, const PskKey& key, Done done);
  // One of each may be under way. A peer that dies sends no farewell: its end is eof, too.
  void async_read_some(boost::asio::mutable_buffer buffer, Callback callback);
  void async_write(boost::asio::const_buffer buffer, Callback callback);
  void shutdown_send();
  void close();

 private:
  struct Carrier;  // how OpenSSL reads and writes the socket
  using Step = void (TlsConnection::*)();
  class Turn;

  void shake_hands();
  void read();
  void write();
  void end_write(const boost::system::error_code& ec);
  // After an attempt that returned `result`: true when it is to be made again, which `step` is once
  // the socket is ready. Else `fault` tells why not.
  bool again(int result, Step step, boost::system::error_code& fault);
  void when_ready(boost::asio::socket_base::wait_type what, Step step);
  void soon(Step step);
  // The operation will not go on.
  void drop(Step step);

  boost::asio::ip::tcp::socket socket_;
  std::unique_ptr<SSL, void (*)(SSL*)> ssl_;
  bool closed_ = false;
  bool at_end_ = false;  // the last read found the end of the stream
  int errno_ = 0;        // of the last read or write that failed
  Done handshake_done_;
  boost::asio::mutable_buffer read_buffer_;
  Callback read_done_;
  boost::asio::const_buffer write_buffer_;
  std::size_t written_ = 0;
  Callback write_done_;
};

}  // namespace hvdrun
