// The data connections of one rank to ranks of other hosts, and the waiting for them. Connections
// are made when an operation first needs them: the lower rank connects, the higher accepts.
//
// One thread runs operations; abort() and peer_gone() come from any. Every wait ends: with what was
// waited for, at the operation's deadline, or with the reason why it cannot come.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <poll.h>
#include <string>
#include <vector>

#include <hvd/hvd.h>

#include "common/base/mutex.h"
#include "common/base/unique_fd.h"
#include "common/net/port_range.h"
#include "worker/hvd/comm/abort_signal.h"
#include "worker/hvd/comm/communicator.h"
#include "worker/hvd/comm/host_layout.h"
#include "worker/hvd/comm/link/accept_room.h"
#include "worker/hvd/comm/link/awaited_links.h"
#include "worker/hvd/comm/link/dial_queue.h"
#include "worker/hvd/comm/link/link.h"
#include "worker/hvd/comm/link/link_handshake.h"
#include "worker/hvd/comm/link/link_tls.h"
#include "worker/hvd/comm/link/socket_address.h"

namespace hvdrun {

class LinkSet {
 public:
  struct Options {
    LinkIdentity identity;
    std::string key;      // the job's data key
    std::string address;  // numeric; where other hosts reach this one
    PortRange ports{};    // it listens at one of them
    bool encrypt = false;
    // The ranks' names in words; none: 0, 1, 2 and so on.
    std::vector<std::size_t> names{};
    std::shared_ptr<AwaitedLinks> awaited{};     // is told, if there
    std::shared_ptr<const AbortSignal> abort{};  // ends waits, if there
  };

  // Listens at a port of its own. Throws hvd::Error(unavailable).
  explicit LinkSet(Options options);
  ~LinkSet();
  LinkSet(const LinkSet&) = delete;
  LinkSet& operator=(const LinkSet&) = delete;

  std::string endpoint() const { return endpoint_.text(); }
  // Once, before the first connection: where all ranks are, by rank.
  void set_peers(HostLayout layout, std::vector<std::string> endpoints);

  // An operation begins: its number and deadline hold for everything until the next.
  void begin(std::uint32_t sequence, const CallOptions& options);
  // Until there are connections to all of them. Ranks of this host need none.
  void connect(const std::vector<std::size_t>& ranks);

  void send(std::size_t rank, MessageMemory memory);
  void send(std::size_t rank, const void* data, std::size_t bytes) { send(rank, {data, bytes}); }
  void receive(std::size_t rank, MessageMemory memory);
  void receive(std::size_t rank, void* data, std::size_t bytes) { receive(rank, {data, bytes}); }
  // Until every message from (to) this rank, or all but the last `but` of them, has come (gone).
  void wait_received(std::size_t rank, std::size_t but = 0);
  void wait_sent(std::size_t rank, std::size_t but = 0);
  void wait_all();
  // Nothing more of this operation is wanted: what comes of it is dropped. Until all is sent.
  void abandon();
  // True when a message has come that nobody has asked for; false after `limit`, or after wake().
  // Throws when a rank is gone, or gave up.
  bool await_news(std::chrono::milliseconds limit) HVD_EXCLUDES(mutex_);
  void wake();

  // All connected ranks are told why this one comes no more.
  void give_up(const hvd::Error& reason);

  void abort(const hvd::Error& reason) HVD_EXCLUDES(mutex_);
  void peer_gone(std::size_t rank, const hvd::Error& reason) HVD_EXCLUDES(mutex_);

 private:
  using Clock = std::chrono::steady_clock;

  // A connection that has not proved itself.
  struct Pending {
    UniqueFd socket;  // until there is a channel
    LinkHandshake handshake;
    std::optional<std::size_t> target;  // whom this rank connects to
    bool connected = false;
    bool has_spoken = false;  // the other end
    std::string input;
    std::string output;
    Clock::time_point begun;
    // With encryption, once the other end has proved itself.
    std::unique_ptr<LinkTls::Channel> tls{};
    bool tls_writes = false;
    bool is_ready = true;  // something of it may be waiting

    int fd() const { return tls ? tls->fd() : socket.get(); }
    bool wants_output() const { return !connected || !output.empty() || tls_writes; }
  };
  enum class Outcome { busy, ready, dropped };

  // A rank that is needed and may not come, and the launcher's reason.
  struct Doubt {
    std::optional<std::size_t> rank;
    std::optional<hvd::Error> reason;
  };

  template <class Done>
  void wait_until(const Done& done);
  void tell_if_slow(Clock::time_point now);
  bool progress();
  void block();
  void look_for_trouble() HVD_EXCLUDES(mutex_);
  void look_at(std::size_t rank, bool lost, Doubt& doubt) HVD_REQUIRES(mutex_);
  std::string awaited() const;
  std::string name_of(std::size_t rank) const;

  void dial_some();
  void start_connecting(std::size_t rank);
  void accept_all();
  bool can_accept_later(int error);
  void step_pendings();
  Clock::time_point pendings_wake_at() const;
  Outcome step(Pending& pending);
  Outcome prove(Pending& pending);
  Outcome secure(Pending& pending);
  Outcome wait_on(const Pending& pending) const;
  Outcome drop(const Pending& pending, const std::string& why) const;
  Outcome hung_up(const Pending& pending, int error);
  void listen();
  void adopt(Pending& pending);
  [[noreturn]] void cannot_connect(std::size_t rank, const std::string& why) const;
  bool misses(const std::vector<std::size_t>& ranks) const;

  const Options options_;
  const std::unique_ptr<LinkTls> tls_;  // none: connections are plain
  SocketAddress endpoint_;
  UniqueFd listener_;
  UniqueFd wake_;
  std::optional<HostLayout> layout_;
  std::vector<std::string> endpoints_;
  std::vector<std::unique_ptr<Link>> links_;  // by rank
  std::vector<Link*> connected_;
  std::vector<std::unique_ptr<Pending>> pendings_;
  DialQueue dials_;
  AcceptRoom room_;
  std::vector<std::size_t> connecting_to_;  // what connect() waits for

  std::uint32_t sequence_ = 0;
  CallOptions call_;
  Clock::time_point deadline_;
  Clock::time_point slow_at_;
  std::atomic<bool> woken_{false};
  // Since when nothing has come while somebody who is needed was gone.
  std::optional<Clock::time_point> lost_since_;
  std::chrono::milliseconds patience_{};

  std::atomic<bool> alarm_{false};  // aborted_ or gone_ has something
  Mutex mutex_;
  std::optional<hvd::Error> aborted_ HVD_GUARDED_BY(mutex_);
  std::vector<std::optional<hvd::Error>> gone_ HVD_GUARDED_BY(mutex_);  // by rank
};

}  // namespace hvdrun
