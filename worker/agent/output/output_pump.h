// Carries the workers' output from their pipes to the viewer, in whole lines; what a rank has begun
// and not gone on with for a moment follows as a part of one. A rank may be ahead of the viewer by
// limits::kOutputCredit bytes; then its pipe is not read until the viewer has caught up, so a rank
// that prints without end waits for itself alone. When the connection itself does not move, no pipe
// is read.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>

#include "common/base/limits.h"
#include "common/base/unique_fd.h"
#include "common/wire/frame_channel.h"
#include "common/wire/messages.h"
#include "worker/agent/output/line_splitter.h"

namespace hvdrun {

class OutputPump {
 public:
  // Long enough for a line that is printed in pieces, short enough for who waits for a question.
  static constexpr std::chrono::milliseconds kPause{50};

  // `pause`: until an unfinished line is sent.
  OutputPump(boost::asio::io_context& io, std::function<void()> on_all_closed,
             std::chrono::milliseconds pause = kPause)
      : io_(io),
        on_all_closed_(std::move(on_all_closed)),
        stall_timer_(io),
        pause_(pause),
        pause_timer_(io) {}

  // Many ranks have less credit each, so that the viewer's memory stays bounded too.
  void set_ranks(std::size_t count) {
    first_credit_ = std::min(limits::kOutputCredit, limits::kMaxOutputOfHost / count);
  }

  // Without a viewer (it is gone) output is read and dropped, so that nobody blocks on it.
  void set_viewer(std::shared_ptr<FrameChannel> viewer);
  // `start`: of the slot's processes, the number of the one that writes.
  void add(std::uint32_t rank, OutputStream stream, UniqueFd pipe, std::uint32_t start = 0);
  void credit(const Credit& message);
  // Sends what the rank has written to stderr and nobody has read yet, as far as there is room for
  // it: before its end is told, what it said last is known.
  void catch_up(std::uint32_t rank);
  // Nobody of the job is left who could write: what the pipes have now is sent, and the end of one
  // that somebody else holds open is not waited for, nor what he writes. `on_held` is called with
  // such a one as it is given up, and its descriptor, before it is closed. Once.
  using OnHeld = std::function<void(std::uint32_t rank, OutputStream stream, int pipe)>;
  void finish(OnHeld on_held);
  // Called with stderr's whole lines, as they come.
  std::function<void(std::uint32_t rank, std::string_view lines)> on_stderr;
  bool all_closed() const { return sources_.empty(); }

 private:
  static constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();
  struct Source {
    Source(boost::asio::io_context& io, std::uint32_t r, OutputStream s, int fd, std::uint32_t nth)
        : rank(r), stream(s), start(nth), pipe(io, fd) {
      pipe.non_blocking(true);  // the reading end alone
    }
    std::uint32_t rank;
    OutputStream stream;
    std::uint32_t start;
    boost::asio::posix::stream_descriptor pipe;
    LineSplitter splitter;
    std::array<char, 16384> buffer{};
    bool reading = false;
    std::size_t left = kNoLimit;  // since finish(): bytes that the job can have written
    std::chrono::steady_clock::time_point last;  // when something was read
    std::string begun;  // of stderr: what of the line has been sent already
  };
  using Key = std::pair<std::uint32_t, OutputStream>;

  void read(const std::shared_ptr<Source>& source);
  void on_readable(const std::shared_ptr<Source>& source, boost::system::error_code ec);
  void received(const std::shared_ptr<Source>& source, std::string_view bytes);
  void closed(const std::shared_ptr<Source>& source);
  bool is_full() const;
  void stall();
  void wait_for_line_ends();
  void send_unfinished(Source& source);
  void send(const Source& source, std::string bytes, bool partial);

  boost::asio::io_context& io_;
  std::function<void()> on_all_closed_;
  OnHeld on_held_;  // since finish()
  std::shared_ptr<FrameChannel> viewer_;
  // Two of a key: a slot that is started again, while somebody still holds a pipe of before.
  std::multimap<Key, std::shared_ptr<Source>> sources_;
  std::map<std::uint32_t, std::int64_t> credit_;  // by rank; may go below zero by one read
  std::size_t first_credit_ = limits::kOutputCredit;
  // Runs while somebody is not read because the connection does not move.
  boost::asio::steady_timer stall_timer_;
  bool stalled_ = false;
  // Runs while a line is unfinished whose rank may send.
  std::chrono::milliseconds pause_;
  boost::asio::steady_timer pause_timer_;
  bool pausing_ = false;
};

}  // namespace hvdrun
