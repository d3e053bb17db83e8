#include "cli/run/coordinator_watch.h"

#include <cerrno>
#include <system_error>
#include <utility>

#include "common/process/stopped_children.h"

namespace hvdrun {
namespace {

UniqueFd child_signals() {
  UniqueFd fd = open_child_signals();
  if (!fd) throw std::system_error(errno, std::system_category(), "signalfd");
  return fd;
}

}  // namespace

CoordinatorWatch::CoordinatorWatch(boost::asio::io_context& io, pid_t coordinator,
                                   std::chrono::milliseconds lease, Callbacks callbacks)
    : coordinator_(coordinator),
      clock_(lease),
      callbacks_(std::move(callbacks)),
      signals_(io, child_signals().release()),
      timer_(io) {
  wait();
  look();  // it may have stopped before anybody listened
}

void CoordinatorWatch::wait() {
  signals_.async_wait(signals_.wait_read, [this](const auto& ec) {
    if (ec) return;
    drain_child_signals(signals_.native_handle());
    look();
    wait();
  });
}

void CoordinatorWatch::look() {
  if (has_ended(coordinator_)) return void(timer_.cancel());  // others tell of that
  clock_.saw(stop_change(coordinator_), std::chrono::steady_clock::now());
  const std::string who = "the coordinator (process " + std::to_string(coordinator_) + ")";
  if (clock_.names_end()) callbacks_.say(who + " goes on");
  if (clock_.names_stop())
    callbacks_.say(who + " has been stopped for " + std::to_string(clock_.stopped_for().count()) +
                   " s; kill -CONT lets it go on");
  if (clock_.is_over())
    return callbacks_.over(who + " has been stopped for " +
                           std::to_string(clock_.stopped_for().count()) + " s");
  const auto next = clock_.next_look();
  if (!next) return void(timer_.cancel());
  timer_.expires_at(*next);
  timer_.async_wait([this](const auto& ec) {
    if (!ec) look();
  });
}

}  // namespace hvdrun
