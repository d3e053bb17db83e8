// The ground that all operations across hosts stand on: who speaks to whom, the ranks' agreement on
// what they call, and the end of everything when one fails.
//
// Ranks that call different things all throw Differs and may go on. Those of one host find out in
// the host's first step; their channel ranks tell the other hosts, in place of what they call. Of
// those hosts the channel ranks hear it in agree(), and the others from them in the next step
// inside the host: so agree() comes before the last step inside the host, in every operation.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "worker/hvd/comm/hosts/hosts_context.h"

namespace hvdrun {

// The cut of bytes, or elements, among the channels: whole cache lines each, whatever the width.
struct ChannelSlices {
  std::size_t count;
  std::size_t channels;

  std::size_t begin_of(std::size_t channel) const {
    const std::size_t each = (count + channels - 1) / channels;
    return std::min(count, channel * ((each + kGrain - 1) / kGrain * kGrain));
  }
  std::size_t count_of(std::size_t channel) const {
    return channel < channels ? begin_of(channel + 1) - begin_of(channel) : 0;
  }

 private:
  static constexpr std::size_t kGrain = 64;
};

class HostsOperation {
 public:
  HostsOperation(HostsContext hosts, const CallOptions& options);

  // Runs body(options for its steps) as the operation `what`. When it throws, this rank's host and
  // all connected ranks are told, and no later operation runs.
  template <class Body>
  void run(const Descriptor& what, const CallOptions& options, const Body& body) {
    const CallOptions step = begin(what, options);
    try {
      compare(step);
      links_->begin(sequence_, options);
      if (is_channel()) announce();
      body(step);
      agree();
      links_->wait_all();
    } catch (const Differs& differs) {
      leave(differs, step);
    } catch (const hvd::Error& error) {
      fail(error);
    }
  }
  // Until every host is known to have called the same; before anything that depends on it.
  void agree();

  const HostLayout& layout() const { return layout_; }
  HostCommunicator& local() { return *local_; }
  LinkSet& links() { return *links_; }
  std::size_t rank() const { return rank_; }
  std::size_t host() const { return host_; }
  std::size_t local_rank() const { return rank_ - layout_.first(host_); }
  std::size_t local_size() const { return layout_.count(host_); }
  std::size_t channels() const { return layout_.channels(); }
  bool is_channel() const { return local_rank() < channels(); }
  bool is_alone() const { return local_size() == 1; }  // on this host
  // The rank on `host` that this one has a connection to.
  std::size_t peer(std::size_t host) const { return layout_.first(host) + local_rank(); }

  void abort(const hvd::Error& reason);
  void peer_gone(std::size_t rank, const hvd::Error& reason);
  bool await_others(std::chrono::milliseconds limit);
  void wake();

 private:
  CallOptions begin(const Descriptor& what, const CallOptions& options);
  void compare(const CallOptions& step);
  void announce();
  [[noreturn]] void leave(const Differs& differs, const CallOptions& step);
  [[noreturn]] void fail(const hvd::Error& error);
  std::string words(std::size_t host) const;

  const HostLayout layout_;
  const std::size_t rank_;
  const std::size_t host_;
  const std::unique_ptr<HostCommunicator> local_;
  const std::unique_ptr<LinkSet> links_;
  std::uint32_t sequence_ = 0;
  Descriptor operation_;
  std::vector<Descriptor> announced_;  // by host
  bool agreed_ = true;
  const OperationHooks* hooks_ = nullptr;
  bool differs_here_ = false;  // on this host
  std::optional<hvd::Error> broken_;
  std::atomic<bool> woken_{false};
};

}  // namespace hvdrun
