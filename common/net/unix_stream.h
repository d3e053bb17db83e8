// ByteStream over a connected Unix socket.
#pragma once

#include <memory>

#include <boost/asio/io_context.hpp>

#include "common/base/unique_fd.h"
#include "common/net/byte_stream.h"

namespace hvdrun {

// Takes the descriptor. Throws boost::system::system_error when it is no stream socket.
std::unique_ptr<ByteStream> make_unix_stream(boost::asio::io_context& io, UniqueFd fd);

// A connected pair, both ends close-on-exec. Throws std::system_error.
std::pair<UniqueFd, UniqueFd> make_socket_pair();

}  // namespace hvdrun
