// Carries hvdrun's stdin from the viewer to the pipes of the ranks that get it. A rank that does
// not read has the credit it began with and no more; then the viewer waits.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "common/base/unique_fd.h"
#include "common/wire/frame_channel.h"
#include "common/wire/messages.h"

namespace hvdrun {

class InputPump {
 public:
  explicit InputPump(boost::asio::io_context& io) : io_(io) {}

  // Without a viewer (it is gone) every rank reads the end of its stdin.
  void set_viewer(std::shared_ptr<FrameChannel> viewer);
  // The rank's pipe, and how many bytes may be on their way to it.
  void add(std::uint32_t rank, UniqueFd pipe, std::size_t credit);
  void input(const Input& message);
  // It has ended, or could not start.
  void remove(std::uint32_t rank);

 private:
  struct Sink {
    Sink(boost::asio::io_context& io, std::uint32_t r, int fd, std::size_t c)
        : rank(r), pipe(io, fd), credit(c) {}
    std::uint32_t rank;
    boost::asio::posix::stream_descriptor pipe;
    std::size_t credit;   // bytes that may wait here
    std::string waiting;  // after what is being written
    std::string writing;
    bool end = false;
  };

  void write(const std::shared_ptr<Sink>& sink);
  void watch(const std::shared_ptr<Sink>& sink);

  boost::asio::io_context& io_;
  std::shared_ptr<FrameChannel> viewer_;
  std::map<std::uint32_t, std::shared_ptr<Sink>> sinks_;  // by rank
};

}  // namespace hvdrun
