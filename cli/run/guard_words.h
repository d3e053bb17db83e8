// The words that guard and agent of a host on this machine say on stderr, which is a pipe to
// hvdrun. Were it hvdrun's own, their lines would tear those of the ranks, and a guard could wait
// for the reader.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "common/base/unique_fd.h"

namespace hvdrun {

class GuardWords {
 public:
  // `line` is called for each, without its end.
  GuardWords(boost::asio::io_context& io, UniqueFd pipe,
             std::function<void(const std::string&)> line);

  // Reads the rest that the guard has left there; it has ended.
  void drain();

 private:
  void wait();
  boost::system::error_code read();
  void take(std::string_view bytes);

  boost::asio::posix::stream_descriptor pipe_;
  std::function<void(const std::string&)> on_line_;
  std::string line_;  // not ended yet
};

}  // namespace hvdrun
