// Hosts that are tried once more: those that are not there yet, and those that were lost.
#include <algorithm>
#include <utility>

#include "cli/run/host_opener.h"

namespace hvdrun {
namespace {

// Before a lost host is opened again: the first pause, and the longest.
constexpr std::chrono::milliseconds kReopenPause{500};
constexpr std::chrono::milliseconds kLongestReopenPause{30'000};
constexpr std::chrono::milliseconds kForgetAfter{1'000};

}  // namespace

void HostOpener::reopen(std::uint32_t host, std::uint32_t opening, bool at_once) {
  if (ending_) return;
  Host& next = supersede(host);
  next.turn = opening;
  next.failures = at_once ? 0 : next.failures + 1;
  next.absence = {"lost", "it was lost"};
  next.reopen_pause = at_once ? std::chrono::milliseconds(0)
                              : std::min(kReopenPause * (1L << std::min(next.failures - 1, 10U)),
                                         kLongestReopenPause);
  try_after(next, next.reopen_pause);
}

void HostOpener::leave_alone(std::uint32_t host) {
  if (ending_ || !hosts_.contains(host)) return;
  supersede(host).state = Host::State::ended;
  open_next();
}

HostOpener::Host& HostOpener::supersede(std::uint32_t host) {
  std::unique_ptr<Host>& place = hosts_.at(host);
  auto next = std::make_unique<Host>(host, true);
  next->name = place->name;
  next->here = place->here;
  next->options = place->options;
  next->script = place->script;
  next->request = place->request;
  next->turn = place->turn;
  next->failures = place->failures;
  superseded_.push_back(std::exchange(place, std::move(next)));
  Host& last = *superseded_.back();
  last.superseded = true;
  std::erase(waiting_, &last);
  if (last.state == Host::State::running) {
    last.relay->end();
    last.tries.back()->give_up();
  } else {
    if (last.query) last.query->cancel();
    forget(last);
  }
  return *place;
}

// A machine that goes down once more when its shell has begun ends no session.
void HostOpener::limit(Host& host) {
  host.patience = std::make_unique<boost::asio::steady_timer>(io_, limit_);
  host.patience->async_wait([this, &host](const auto& ec) {
    if (!ec && !ending_ && !host.superseded && host.state == Host::State::running &&
        !callbacks_.is_connected(host.index))
      host.tries.back()->give_up();
  });
}

// Handlers that wait in there run before it goes.
void HostOpener::forget(Host& last) {
  last.state = Host::State::ended;
  if (last.patience) last.patience->cancel();
  for (const auto& over : last.tries) over->release();
  last.pause = std::make_unique<boost::asio::steady_timer>(io_, kForgetAfter);
  last.pause->async_wait([this, &last](const auto& ec) {
    if (!ec) std::erase_if(superseded_, [&last](const auto& one) { return one.get() == &last; });
  });
}

// It has worked before, so whatever is wrong may pass.
void HostOpener::reopen_later(Host& host, const RemoteHost::End& end) {
  host.absence = {stage(host), end.why};
  if (std::exchange(host.last_fault, end.why) != end.why)
    callbacks_.say(host.name + ": " + end.why + "; tried again until the job ends");
  host.reopen_pause = std::clamp(2 * host.reopen_pause, kReopenPause, kLongestReopenPause);
  try_after(host, host.reopen_pause);
}

void HostOpener::try_later(Host& host, const RemoteHost::End& end,
                           const OpeningRetry::Again& again) {
  if (!again.keeps_place) host.absence = {stage(host), end.why};
  if (again.is_news)
    callbacks_.say(host.name + ": " + end.why + "; tried again until it answers, for " +
                   std::to_string((limit_.count() + 999) / 1000) + " s (--start-timeout)");
  try_after(host, again.pause);
}

void HostOpener::try_after(Host& host, std::chrono::milliseconds pause) {
  host.state = Host::State::pausing;
  for (const auto& over : host.tries) over->release();
  host.pause = std::make_unique<boost::asio::steady_timer>(io_, pause);
  host.pause->async_wait([this, &host](const auto& ec) {
    if (!ec && !ending_ && !host.superseded) try_again(host);
  });
  open_next();
}

// Those that were not tried yet go before one that was not there.
void HostOpener::try_again(Host& host) {
  host.tries.clear();
  if (!host.absence) return open(host);
  host.state = Host::State::waiting;
  waiting_.push_back(&host);
  open_next();
}

}  // namespace hvdrun
