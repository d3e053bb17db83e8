// hvdrun's stdin on its way to the ranks that get it (--stdin): read only when each of them has
// credit, so no more than a credit of it is held anywhere. Descriptor 0 is touched only if this
// exists.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "cli/text/shared_fd.h"
#include "common/wire/messages.h"

namespace hvdrun {

class InputSource {
 public:
  // `send` passes a message on; `on_trouble` gets a line for the user. Ignores SIGTTIN from here
  // on: in the background a read fails then, and is tried again, instead of stopping the job.
  InputSource(boost::asio::io_context& io, int fd, const std::vector<std::uint32_t>& ranks,
              std::function<void(const Input&)> send,
              std::function<void(const std::string&)> on_trouble);

  void credit(const InputCredit& message);
  // The rank reads no more.
  void closed(std::uint32_t rank);

 private:
  bool in_background() const;
  void schedule();
  void read();
  void retry_later();
  void end();

  int terminal_;  // the descriptor as given, to ask who is in the foreground
  SharedFd fd_;
  std::function<void(const Input&)> send_;
  std::function<void(const std::string&)> on_trouble_;
  std::map<std::uint32_t, std::size_t> credit_;  // of the ranks that still read
  boost::asio::steady_timer timer_;
  std::array<char, 16384> buffer_{};
  bool waiting_ = false;
  bool ended_ = false;
};

}  // namespace hvdrun
