#include "worker/agent/output/input_pump.h"

#include <poll.h>
#include <utility>

#include <boost/asio/write.hpp>

namespace hvdrun {

void InputPump::set_viewer(std::shared_ptr<FrameChannel> viewer) {
  viewer_ = std::move(viewer);
  if (viewer_) return;
  for (const auto& [rank, sink] : sinks_) sink->pipe.close();
  sinks_.clear();
}

void InputPump::add(std::uint32_t rank, UniqueFd pipe, std::size_t credit) {
  if (!viewer_) return;
  const auto sink = std::make_shared<Sink>(io_, rank, pipe.release(), credit);
  sinks_[rank] = sink;
  watch(sink);
  viewer_->send(InputCredit{rank, static_cast<std::uint32_t>(credit)});
}

void InputPump::input(const Input& message) {
  const auto found = sinks_.find(message.rank);
  if (found == sinks_.end()) return;
  const auto sink = found->second;
  // More than it had credit for: not to be trusted.
  if (message.bytes.size() + sink->waiting.size() + sink->writing.size() > sink->credit)
    return remove(message.rank);
  sink->waiting += message.bytes;
  sink->end = sink->end || message.end;
  if (sink->writing.empty()) write(sink);
}

void InputPump::remove(std::uint32_t rank) {
  const auto found = sinks_.find(rank);
  if (found == sinks_.end()) return;
  found->second->pipe.close();
  sinks_.erase(found);
  if (viewer_) viewer_->send(InputClosed{rank});
}

void InputPump::write(const std::shared_ptr<Sink>& sink) {
  if (sink->waiting.empty()) {
    if (sink->end) remove(sink->rank);
    return;
  }
  sink->writing = std::exchange(sink->waiting, {});
  boost::asio::async_write(
      sink->pipe, boost::asio::buffer(std::as_const(sink->writing)),
      [this, sink](const auto& ec, std::size_t size) {
        sink->writing.clear();
        if (!sink->pipe.is_open()) return;
        if (ec) return remove(sink->rank);
        if (viewer_) viewer_->send(InputCredit{sink->rank, static_cast<std::uint32_t>(size)});
        write(sink);
      });
}

// The rank may close its stdin while nothing is written to it.
void InputPump::watch(const std::shared_ptr<Sink>& sink) {
  sink->pipe.async_wait(sink->pipe.wait_error, [this, sink](const auto& ec) {
    if (ec || !sink->pipe.is_open()) return;
    // Asio may tell it of what another descriptor was before it was closed.
    pollfd end{sink->pipe.native_handle(), 0, 0};
    if (::poll(&end, 1, 0) == 0) return watch(sink);
    remove(sink->rank);
  });
}

}  // namespace hvdrun
