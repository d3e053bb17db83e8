#include "worker/agent/output/output_pump.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <utility>

#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>

#include "common/base/limits.h"

namespace hvdrun {
namespace {

// Until it is looked whether a full connection has moved.
constexpr std::chrono::milliseconds kStallPause{10};

// Somebody has the other end open.
bool has_writer(int pipe) {
  pollfd look{pipe, POLLIN, 0};
  return ::poll(&look, 1, 0) >= 0 && (look.revents & POLLHUP) == 0;
}

}  // namespace

void OutputPump::set_viewer(std::shared_ptr<FrameChannel> viewer) {
  viewer_ = std::move(viewer);
  for (const auto& [key, source] : sources_) read(source);
}

void OutputPump::add(std::uint32_t rank, OutputStream stream, UniqueFd pipe, std::uint32_t start) {
  const auto source = std::make_shared<Source>(io_, rank, stream, pipe.release(), start);
  sources_.emplace(Key(rank, stream), source);
  credit_.emplace(rank, first_credit_);
  read(source);
}

void OutputPump::read(const std::shared_ptr<Source>& source) {
  if (source->splitter.has_rest()) wait_for_line_ends();
  if (source->reading || (viewer_ && credit_[source->rank] <= 0)) return;
  if (is_full()) return stall();
  source->reading = true;
  // Nobody of the job will write what a pipe does not have by now.
  if (on_held_) return boost::asio::post(io_, [this, source] { on_readable(source, {}); });
  source->pipe.async_wait(source->pipe.wait_read, [this, source](boost::system::error_code ec) {
    on_readable(source, ec);
  });
}

void OutputPump::on_readable(const std::shared_ptr<Source>& source, boost::system::error_code ec) {
  source->reading = false;
  // Others have been read meanwhile: together they would fill more than the connection may hold.
  if (is_full()) return stall();
  if (on_held_ && ec == boost::asio::error::operation_aborted) ec = {};
  if (on_held_ && source->left == 0) {
    if (has_writer(source->pipe.native_handle())) {
      on_held_(source->rank, source->stream, source->pipe.native_handle());
      return closed(source);
    }
    source->left = kNoLimit;  // there is an end
  }
  std::size_t size = 0;
  if (!ec)
    size = source->pipe.read_some(
        boost::asio::buffer(source->buffer, std::min(source->left, source->buffer.size())), ec);
  if (ec && (on_held_ || ec != boost::asio::error::would_block)) return closed(source);
  if (source->left != kNoLimit) source->left -= size;
  if (!ec) received(source, {source->buffer.data(), size});
  read(source);
}

void OutputPump::finish(OnHeld on_held) {
  if (on_held_) return;
  on_held_ = std::move(on_held);
  // Those that do not wait for their pipe wait for credit or for the connection.
  boost::system::error_code ignored;
  for (const auto& [key, source] : sources_) {
    int waiting = 0;
    ::ioctl(source->pipe.native_handle(), FIONREAD, &waiting);
    source->left = static_cast<std::size_t>(waiting);
    source->pipe.cancel(ignored);
  }
}

bool OutputPump::is_full() const { return viewer_ && viewer_->queued() > limits::kMaxOutputQueue; }

void OutputPump::stall() {
  if (std::exchange(stalled_, true)) return;
  stall_timer_.expires_after(kStallPause);
  stall_timer_.async_wait([this](const auto& ec) {
    if (ec) return;
    stalled_ = false;
    for (const auto& [key, source] : sources_) read(source);
  });
}

void OutputPump::received(const std::shared_ptr<Source>& source, std::string_view bytes) {
  std::string lines;
  bool partial = false;
  source->splitter.feed(bytes, lines, partial);
  source->last = std::chrono::steady_clock::now();
  if (source->stream == OutputStream::err && on_stderr && !lines.empty()) {
    on_stderr(source->rank, source->begun.empty() ? lines : source->begun + lines);
    source->begun.clear();
  }
  if (!lines.empty()) send(*source, std::move(lines), partial);
}

void OutputPump::catch_up(std::uint32_t rank) {
  const auto next = sources_.upper_bound({rank, OutputStream::err});
  if (next == sources_.begin() || std::prev(next)->first != Key(rank, OutputStream::err)) return;
  const std::shared_ptr<Source> source = std::prev(next)->second;
  std::array<char, 16384> buffer;
  // The pending read finds what comes later.
  while (!viewer_ || (credit_[rank] > 0 && !is_full())) {
    const ssize_t got = ::read(source->pipe.native_handle(), buffer.data(), buffer.size());
    if (got <= 0) return;
    received(source, {buffer.data(), static_cast<std::size_t>(got)});
  }
}

void OutputPump::closed(const std::shared_ptr<Source>& source) {
  std::string rest = source->splitter.take_rest();
  if (!rest.empty()) send(*source, std::move(rest), true);
  if (viewer_) viewer_->send(OutputClosed{source->rank, source->stream});
  std::erase_if(sources_, [&source](const auto& entry) { return entry.second == source; });
  if (sources_.empty()) on_all_closed_();
}

// One timer for all: most of what floods stops somewhere in a line, and goes on in the next turn.
// Who has no credit is looked at when it gets some.
void OutputPump::wait_for_line_ends() {
  if (std::exchange(pausing_, true)) return;
  pause_timer_.expires_after(pause_);
  pause_timer_.async_wait([this](const auto& ec) {
    if (ec) return;
    pausing_ = false;
    const auto time = std::chrono::steady_clock::now();
    for (const auto& [key, source] : sources_) {
      if (!source->splitter.has_rest() || (viewer_ && credit_[source->rank] <= 0)) continue;
      if (is_full()) return stall();
      if (time - source->last >= pause_) {
        send_unfinished(*source);
      } else {
        wait_for_line_ends();
      }
    }
  });
}

void OutputPump::send_unfinished(Source& source) {
  std::string rest = source.splitter.take_rest();
  if (source.stream == OutputStream::err && source.begun.size() < limits::kMaxOutputLine)
    source.begun += rest;
  send(source, std::move(rest), true);
}

void OutputPump::send(const Source& source, std::string bytes, bool partial) {
  if (!viewer_) return;
  credit_[source.rank] -= static_cast<std::int64_t>(bytes.size());
  viewer_->send(Output{source.rank, source.stream, partial, std::move(bytes), source.start});
}

void OutputPump::credit(const Credit& message) {
  const auto left = credit_.find(message.rank);
  if (left == credit_.end()) return;
  left->second += message.bytes;
  for (const OutputStream stream : {OutputStream::out, OutputStream::err}) {
    const auto [first, last] = sources_.equal_range({message.rank, stream});
    for (auto source = first; source != last; ++source) read(source->second);
  }
}

}  // namespace hvdrun
