#include "worker/hvd/comm/link/link_set.h"

#include <algorithm>
#include <sys/eventfd.h>
#include <utility>

namespace hvdrun {
namespace {

using std::chrono::milliseconds;

// A waiting rank with nothing better to do asks the sockets this long before it sleeps: a message
// between two hosts takes about as long as waking up does.
constexpr std::chrono::microseconds kSpin{30};
// The launcher may take so long to say why a connection ended, and a dead rank's last bytes to
// arrive.
constexpr milliseconds kReasonWait{500};
// A rank may send nothing for so long after one of its host has left or died: it may have had its
// part before, or fails itself.
constexpr milliseconds kSilence{5000};
constexpr std::size_t kMostNamed = 8;

}  // namespace

void LinkSet::begin(std::uint32_t sequence, const CallOptions& options) {
  sequence_ = sequence;
  call_ = options;
  deadline_ = Clock::now() + options.timeout;
  slow_at_ = Clock::time_point::max();
  if (options.watch != nullptr) slow_at_ = Clock::now() + options.watch->after;
  lost_since_.reset();
  if (alarm_.load(std::memory_order_acquire)) {
    const MutexLock lock(mutex_);
    if (aborted_) throw hvd::Error(*aborted_);
  }
}

void LinkSet::send(std::size_t rank, MessageMemory memory) {
  links_[rank]->send(sequence_, std::move(memory));
}

void LinkSet::receive(std::size_t rank, MessageMemory memory) {
  links_[rank]->receive(sequence_, std::move(memory));
}

void LinkSet::wait_received(std::size_t rank, std::size_t but) {
  const Link& link = *links_[rank];
  wait_until([&] { return link.unreceived() <= but; });
}

void LinkSet::wait_sent(std::size_t rank, std::size_t but) {
  const Link& link = *links_[rank];
  wait_until([&] { return link.unsent() <= but; });
}

void LinkSet::wait_all() {
  wait_until([&] {
    return std::all_of(connected_.begin(), connected_.end(), [](const Link* link) {
      return link->unreceived() == 0 && link->unsent() == 0;
    });
  });
}

void LinkSet::abandon() {
  for (Link* const link : connected_) link->abandon(sequence_);
  wait_all();
}

bool LinkSet::await_news(milliseconds limit) {
  deadline_ = Clock::now() + limit;
  slow_at_ = Clock::time_point::max();
  std::optional<Clock::time_point> ended_at;
  while (true) {
    progress();
    {
      // Also where others wait already: they wait for what this rank has given up.
      const MutexLock lock(mutex_);
      if (aborted_) throw hvd::Error(*aborted_);
    }
    for (const Link* const link : connected_) {
      if (link->has_news()) return true;
      if (link->failure()) look_for_trouble();
      if (!link->ended()) continue;
      // The launcher may be about to say why.
      if (!ended_at) ended_at = Clock::now();
      if (Clock::now() - *ended_at >= kReasonWait)
        throw hvd::Error(hvd::ErrorCode::peer_lost,
                         name_of(link->rank()) + " is lost: its connection ended");
    }
    if (ended_at) deadline_ = std::min(deadline_, *ended_at + kReasonWait);
    {
      const MutexLock lock(mutex_);
      for (const auto& gone : gone_)
        if (gone) throw hvd::Error(*gone);
    }
    if (woken_.exchange(false) || (Clock::now() >= deadline_ && !ended_at)) return false;
    block();
  }
}

void LinkSet::wake() {
  woken_ = true;
  ::eventfd_write(wake_.get(), 1);
}

template <class Done>
void LinkSet::wait_until(const Done& done) {
  constexpr auto kNever = Clock::time_point::max();
  auto idle_since = kNever;
  while (!done()) {
    if (progress()) {
      idle_since = kNever;
      lost_since_.reset();
      continue;
    }
    look_for_trouble();
    const auto now = Clock::now();
    tell_if_slow(now);
    if (idle_since == kNever) idle_since = now;
    if (!call_.may_spin || now - idle_since >= kSpin) block();
  }
}

void LinkSet::tell_if_slow(Clock::time_point now) {
  if (now < slow_at_) return;
  slow_at_ = now + call_.watch->after;
  call_.watch->tell();
}

bool LinkSet::progress() {
  bool moved = false;
  for (Link* const link : connected_)
    if (link->wants_output() || link->wants_input()) moved = link->progress() || moved;
  return moved;
}

void LinkSet::block() {
  // poll() leaves out what is no descriptor.
  std::vector<pollfd> polled{{wake_.get(), POLLIN, 0},
                             {options_.abort ? options_.abort->fd() : -1, POLLIN, 0}};
  for (const Link* const link : connected_) {
    const int events = (link->wants_input() ? POLLIN : 0) | (link->wants_output() ? POLLOUT : 0);
    if (events != 0) polled.push_back({link->fd(), static_cast<short>(events), 0});
  }
  auto until = std::min(deadline_, slow_at_);
  std::size_t first_pending = polled.size();
  if (!connecting_to_.empty()) {
    until = std::min(until, pendings_wake_at());
    if (room_.has_place()) polled.push_back({listener_.get(), POLLIN, 0});
    first_pending = polled.size();
    for (const auto& pending : pendings_) {
      const int events = pending->wants_output() ? POLLOUT : POLLIN;
      polled.push_back({pending->fd(), static_cast<short>(events), 0});
    }
  }
  if (lost_since_) until = std::min(until, *lost_since_ + patience_);
  const auto left = std::chrono::ceil<milliseconds>(until - Clock::now()).count();
  constexpr std::int64_t kLongest = 60'000;
  ::poll(polled.data(), polled.size(),
         static_cast<int>(std::clamp<std::int64_t>(left, 0, kLongest)));
  if ((polled[0].revents & POLLIN) != 0) {
    eventfd_t count = 0;
    ::eventfd_read(wake_.get(), &count);
  }
  for (std::size_t i = first_pending; i < polled.size(); ++i)
    if (polled[i].revents != 0) pendings_[i - first_pending]->is_ready = true;
}

// Throws when this wait cannot end well.
void LinkSet::look_for_trouble() {
  const auto now = Clock::now();
  for (const Link* const link : connected_) {
    if (!link->failure()) continue;
    const hvd::Error& said = *link->failure();
    // A lost rank or a mismatch is the same news from whomever we hear it.
    if (said.code() == hvd::ErrorCode::peer_lost || said.code() == hvd::ErrorCode::mismatch)
      throw hvd::Error(said);
    throw hvd::Error(said.code(), name_of(link->rank()) + " gave up: " + said.what());
  }
  if (options_.abort)
    if (const auto reason = options_.abort->reason()) throw hvd::Error(*reason);
  const MutexLock lock(mutex_);
  if (aborted_) throw hvd::Error(*aborted_);
  Doubt doubt;
  patience_ = kSilence;
  for (const Link* const link : connected_)
    if (link->unreceived() > 0 || link->unsent() > 0) look_at(link->rank(), link->lost(), doubt);
  for (const std::size_t rank : connecting_to_)
    if (!links_[rank]) look_at(rank, false, doubt);
  if (!doubt.rank) lost_since_.reset();
  if (doubt.rank && !lost_since_) lost_since_ = now;
  if (doubt.rank && now - *lost_since_ >= patience_) {
    if (doubt.reason) throw hvd::Error(*doubt.reason);
    throw hvd::Error(hvd::ErrorCode::peer_lost,
                     name_of(*doubt.rank) + " is lost: its connection ended");
  }
  if (now >= deadline_)
    throw hvd::Error(hvd::ErrorCode::timeout,
                     "waited " + seconds_text(call_.timeout) + " for " + awaited());
}

// Tells whether this rank, which is needed, may not come, and how long it may still be silent.
void LinkSet::look_at(std::size_t rank, bool lost, Doubt& doubt) {
  const std::size_t host = layout_->host_of(rank);
  std::optional<hvd::Error> why = gone_[rank];
  for (std::size_t i = 0; i < layout_->count(host) && !why; ++i)
    why = gone_[layout_->first(host) + i];
  if (!lost && !why) return;
  doubt.rank = rank;
  if (lost && why)
    patience_ = milliseconds(0);
  else if (lost || gone_[rank])
    patience_ = std::min(patience_, kReasonWait);
  if (why) doubt.reason = why;
}

std::string LinkSet::name_of(std::size_t rank) const {
  return "rank " + std::to_string(options_.names.empty() ? rank : options_.names[rank]);
}

std::string LinkSet::awaited() const {
  std::vector<std::size_t> ranks;
  for (const Link* const link : connected_)
    if (link->unreceived() > 0 || link->unsent() > 0) ranks.push_back(link->rank());
  for (const std::size_t rank : connecting_to_)
    if (!links_[rank]) ranks.push_back(rank);
  std::sort(ranks.begin(), ranks.end());
  std::string text;
  for (std::size_t i = 0; i < std::min(ranks.size(), kMostNamed); ++i)
    text += (i == 0 ? "" : ", ") + name_of(ranks[i]);
  if (ranks.size() > kMostNamed)
    text += " and " + std::to_string(ranks.size() - kMostNamed) + " more";
  return text;
}

void LinkSet::give_up(const hvd::Error& reason) {
  for (Link* const link : connected_) link->give_up(reason);
}

void LinkSet::abort(const hvd::Error& reason) {
  {
    const MutexLock lock(mutex_);
    if (!aborted_) aborted_ = reason;
    alarm_.store(true, std::memory_order_release);
  }
  ::eventfd_write(wake_.get(), 1);
}

void LinkSet::peer_gone(std::size_t rank, const hvd::Error& reason) {
  {
    const MutexLock lock(mutex_);
    if (!gone_[rank]) gone_[rank] = reason;
    alarm_.store(true, std::memory_order_release);
  }
  ::eventfd_write(wake_.get(), 1);
}

}  // namespace hvdrun
