#include "worker/hvd/comm/hosts/hosts_operation.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

namespace hvdrun {
namespace {

// The call of a host whose ranks call different things.
constexpr Descriptor kDifferent{.fingerprint = std::numeric_limits<std::uint64_t>::max()};
// A channel rank with nothing to call looks at both its host and the others so often.
constexpr std::chrono::milliseconds kLeastLook{1};
constexpr std::chrono::milliseconds kMostLook{8};
// A channel rank says so long after its time is over, at the latest, why it gives up.
constexpr std::chrono::milliseconds kChannelsWord{500};

}  // namespace

HostsOperation::HostsOperation(HostsContext hosts, const CallOptions& options)
    : layout_(std::move(hosts.layout)),
      rank_(hosts.rank),
      host_(layout_.host_of(rank_)),
      local_(std::move(hosts.local)),
      links_(std::move(hosts.links)),
      announced_(layout_.hosts()) {
  if (!is_channel()) return;
  std::vector<std::size_t> peers;
  for (std::size_t host = 0; host < layout_.hosts(); ++host)
    if (host != host_) peers.push_back(peer(host));
  links_->begin(0, options);
  links_->connect(peers);
}

CallOptions HostsOperation::begin(const Descriptor& what, const CallOptions& options) {
  operation_ = options.step_of != nullptr ? *options.step_of : what;
  operation_.fingerprint = options.fingerprint;
  ++sequence_;
  differs_here_ = false;
  if (broken_)
    throw hvd::Error(
        broken_->code(),
        describe(operation_) + ": no collective can run after one that failed: " + broken_->what());
  agreed_ = !is_channel();
  hooks_ = options.hooks;
  CallOptions step = options;
  step.hooks = nullptr;
  step.step_of = &operation_;
  // Else it might blame a channel rank of this host, whose own time for another host is over.
  if (!is_channel()) step.grace = kChannelsWord;
  return step;
}

void HostsOperation::compare(const CallOptions& step) {
  try {
    local_->compare(operation_, step);
    if (hooks_ == nullptr) return;
    hooks_->arrived();
    // The others have to take their channel ranks' word for it.
    if (agreed_) hooks_->agreed();
  } catch (const Differs&) {
    differs_here_ = true;
    if (!is_channel()) throw;
    links_->begin(sequence_, step);
    announce();
    agree();
    throw;
  }
}

// This host's call goes to all others before any of its bytes.
void HostsOperation::announce() {
  announced_[host_] = differs_here_ ? kDifferent : operation_;
  for (std::size_t host = 0; host < layout_.hosts(); ++host) {
    if (host == host_) continue;
    links_->send(peer(host), &announced_[host_], sizeof(Descriptor));
    links_->receive(peer(host), &announced_[host], sizeof(Descriptor));
  }
}

void HostsOperation::agree() {
  if (agreed_) return;
  for (std::size_t host = 0; host < layout_.hosts(); ++host)
    if (host != host_) links_->wait_received(peer(host));
  agreed_ = true;
  // Everybody compares with the first host in the same order, so everybody throws the same words.
  for (std::size_t host = 1; host < layout_.hosts(); ++host)
    if (announced_[host] != announced_[0])
      throw Differs("rank 0 called " + words(0) + ", but rank " +
                    std::to_string(layout_.first(host)) + " called " + words(host));
  if (hooks_ != nullptr && !differs_here_) hooks_->agreed();
}

std::string HostsOperation::words(std::size_t host) const {
  return announced_[host] == kDifferent ? "something else than another rank of its host"
                                        : describe(announced_[host]);
}

// This rank calls something else next. What it has sent the others drop, and it drops theirs.
void HostsOperation::leave(const Differs& differs, const CallOptions& step) {
  if (!is_channel() && !differs_here_)
    throw Differs("rank " + std::to_string(rank_) + " called " + describe(operation_) +
                  ", but another host something else");
  try {
    if (is_channel()) {
      if (!differs_here_) {
        // The ranks without a channel are in a step of their own.
        CallOptions other = step;
        other.fingerprint = kDifferent.fingerprint;
        other.step_of = nullptr;
        try {
          local_->compare(kDifferent, other);
        } catch (const Differs&) {
        }
      }
      links_->abandon();
    }
  } catch (const hvd::Error& error) {
    fail(error);
  }
  throw Differs(differs);
}

void HostsOperation::fail(const hvd::Error& error) {
  // Steps inside the host name the operation, those between hosts do not.
  const std::string prefix = describe(operation_) + ": ";
  std::string text = error.what();
  if (text.starts_with(prefix)) text.erase(0, prefix.size());
  const hvd::Error reason(error.code(), text);
  local_->give_up(reason);
  links_->give_up(reason);
  broken_.emplace(error.code(), error.code() == hvd::ErrorCode::mismatch ? text : prefix + text);
  throw hvd::Error(*broken_);
}

bool HostsOperation::await_others(std::chrono::milliseconds limit) {
  if (broken_) throw hvd::Error(*broken_);
  try {
    if (!is_channel()) return local_->await_others(limit);
    if (is_alone()) return links_->await_news(limit);
    const auto until = std::chrono::steady_clock::now() + limit;
    for (auto look = kLeastLook;; look = std::min(kMostLook, 2 * look)) {
      if (links_->await_news(std::chrono::milliseconds(0)) || local_->await_others(look))
        return true;
      if (woken_.exchange(false) || std::chrono::steady_clock::now() >= until) return false;
    }
  } catch (const hvd::Error& error) {
    local_->give_up(error);
    links_->give_up(error);
    broken_ = error;
    throw;
  }
}

void HostsOperation::wake() {
  woken_ = true;
  local_->wake();
  links_->wake();
}

void HostsOperation::abort(const hvd::Error& reason) {
  local_->abort(reason);
  links_->abort(reason);
}

void HostsOperation::peer_gone(std::size_t rank, const hvd::Error& reason) {
  if (rank >= layout_.size() || rank == rank_) return;
  if (layout_.host_of(rank) == host_)
    local_->peer_gone(static_cast<int>(rank - layout_.first(host_)), reason);
  else
    links_->peer_gone(rank, reason);
}

}  // namespace hvdrun
