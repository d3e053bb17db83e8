#include "worker/comm/hosts_operation.h"

#include <string>
#include <utility>

namespace hvdrun {

HostsOperation::HostsOperation(HostsOptions hosts, const CallOptions& options)
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
  operation_ = what;
  operation_.sequence = sequence_++;
  if (broken_)
    throw hvd::Error(
        broken_->code(),
        describe(operation_) + ": no collective can run after one that failed: " + broken_->what());
  agreed_ = !is_channel();
  CallOptions step = options;
  step.step_of = &operation_;
  return step;
}

// What this host calls goes to all others before any of its bytes.
void HostsOperation::announce() {
  announced_[host_] = operation_;
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
      throw hvd::Error(hvd::ErrorCode::mismatch, "rank 0 called " + describe(announced_[0]) +
                                                     ", but rank " +
                                                     std::to_string(layout_.first(host)) +
                                                     " called " + describe(announced_[host]));
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
