// TCP with TLS 1.3, keyed by the job's secret as a pre-shared key (identity: the job id), as
// tls_settings.h sets it up. There are no certificates: who does not know the key gets no
// handshake, and a stream's other end, whichever it is, has proved that it does.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>

#include "common/base/unique_fd.h"
#include "common/net/byte_stream.h"
#include "common/net/tls_settings.h"

namespace hvdrun {

class TlsContext;

// For accepting or for connecting; may serve any number of connections, on one thread.
std::shared_ptr<TlsContext> make_tls_context(PskKey key);

using OnStream = std::function<void(std::error_code, std::unique_ptr<ByteStream>)>;

// Server side: the handshake on an accepted connection. A wrong or missing key is
// Errc::auth_failed, one who hangs up Errc::closed, a silent one Errc::timeout.
void async_tls_accept(boost::asio::io_context& io, std::shared_ptr<TlsContext> context,
                      boost::asio::ip::tcp::socket socket, std::chrono::milliseconds limit,
                      OnStream on_stream);

// Client side: tries all addresses ("ip:port", "[ip6]:port") at once; the first that completes the
// handshake wins, the others are closed. When none does: the last error. `on_failure` hears of each
// that fails before, in the order in which they do: Errc::auth_failed is somebody who does not hold
// the key, Errc::closed one who hung up instead of showing it.
using OnFailure = std::function<void(const std::string& address, std::error_code)>;
void async_tls_connect(boost::asio::io_context& io, const std::shared_ptr<TlsContext>& context,
                       const std::vector<std::string>& addresses, std::chrono::milliseconds limit,
                       OnStream on_stream, OnFailure on_failure = {});

// The same over a connected Unix socket that leads there.
void async_tls_connect_over(boost::asio::io_context& io, std::shared_ptr<TlsContext> context,
                            UniqueFd socket, std::chrono::milliseconds limit, OnStream on_stream);

// "1.2.3.4:5" or "[::1]:5" to an endpoint, and back.
std::error_code parse_address(const std::string& text, boost::asio::ip::tcp::endpoint& endpoint);
std::string endpoint_text(const boost::asio::ip::tcp::endpoint& endpoint);

}  // namespace hvdrun
