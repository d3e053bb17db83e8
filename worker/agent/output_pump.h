// Carries the workers' output from their pipes to the viewer, in whole lines. A rank may be ahead
// of the viewer by limits::kOutputCredit bytes; then its pipe is not read until the viewer has
// caught up, so a rank that prints without end waits for itself alone.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>

#include "common/frame_channel.h"
#include "common/line_splitter.h"
#include "common/messages.h"
#include "common/unique_fd.h"

namespace hvdrun {

class OutputPump {
 public:
  OutputPump(boost::asio::io_context& io, std::function<void()> on_all_closed)
      : io_(io), on_all_closed_(std::move(on_all_closed)) {}

  // Without a viewer (it is gone) output is read and dropped, so that nobody blocks on it.
  void set_viewer(std::shared_ptr<FrameChannel> viewer);
  void add(std::uint32_t rank, OutputStream stream, UniqueFd pipe);
  void credit(const Credit& message);
  bool all_closed() const { return sources_.empty(); }

 private:
  struct Source {
    Source(boost::asio::io_context& io, std::uint32_t r, OutputStream s, int fd)
        : rank(r), stream(s), pipe(io, fd) {}
    std::uint32_t rank;
    OutputStream stream;
    boost::asio::posix::stream_descriptor pipe;
    LineSplitter splitter;
    std::array<char, 16384> buffer{};
    bool reading = false;
  };
  using Key = std::pair<std::uint32_t, OutputStream>;

  void read(const std::shared_ptr<Source>& source);
  void send(const Source& source, std::string bytes, bool partial);

  boost::asio::io_context& io_;
  std::function<void()> on_all_closed_;
  std::shared_ptr<FrameChannel> viewer_;
  std::map<Key, std::shared_ptr<Source>> sources_;
  std::map<std::uint32_t, std::int64_t> credit_;  // by rank; may go below zero by one read
};

}  // namespace hvdrun
