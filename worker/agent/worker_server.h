// The agent's side of its workers' lines (libhvd): a Unix socket in the abstract name space, so
// nothing has to be removed afterwards; only processes of the same user (and root) are let in.
//
// The doors of elastic jobs are in worker_doors.cpp.
//
// Relays fence and store between the workers and the coordinator, one fence frame for the whole
// host, and serves the shared-memory segments itself.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "common/net/port_range.h"
#include "common/net/unix_listener.h"
#include "common/wire/frame_channel.h"
#include "common/wire/messages.h"
#include "worker/agent/ranks/joiner.h"
#include "worker/agent/ranks/segments.h"
#include "worker/agent/stalls/host_survey.h"

namespace hvdrun {

struct WorkerServerOptions {
  std::string job_id;
  std::string name;  // "@name": abstract
  std::uint32_t epoch = 0;
  std::uint32_t usable_cores = 0;
  std::string data_key;      // for connections between ranks of different hosts
  std::string host_address;  // where other hosts reach this one
  bool encrypt_data = false;
  PortRange ports;               // of data connections
  std::vector<RankPlace> ranks;  // of this host, in the first epoch: their numbers name the slots
  bool elastic = false;          // there may be others
  bool joins_later = false;      // no rank of this host takes part in the epoch
  StartedRank rank_started;      // none: whoever comes first is believed
  // A line for the user.
  std::function<void(const std::string&)> trouble;
  // Frames for the coordinator, of the current epoch.
  std::function<void(std::string)> send_up;
  // A slot's process has died, as another rank of its host says; its end is yet to be seen.
  std::function<void(std::uint32_t slot)> slot_died;
  // A rank's timeline goes there; none: it is dropped.
  std::function<void(TimelineBatch)> timeline_batch;
  std::function<void(TimelineControl)> timeline_control;
  std::uint64_t stall_warning = 0;  // ms, as in WorkerTopology
  std::uint64_t stall_shutdown = 0;
  // All workers have answered the question of survey(), or had time to.
  std::function<void(HostSurvey::Answer)> surveyed;
};

class WorkerServer {
 public:
  // Listens. Throws boost::system::system_error when it cannot.
  WorkerServer(boost::asio::io_context& io, WorkerServerOptions options);

  // The coordinator's messages.
  void fence_release(const FenceRelease& message);
  void fence_failed(const FenceFailed& message);
  void store_ack(const StoreAck& message);
  void store_value(const StoreValue& message);
  void peer_lost(const PeerLost& message);
  void peer_gave_up(const PeerGaveUp& message);
  // Asks all that have joined what they wait for.
  void survey(std::uint64_t request);
  // The process that has joined as this rank; 0: none has, or one without a number here.
  pid_t pid_of(std::uint32_t rank) const;
  // Calls `then` when all that a rank said over its line has been read; its process is gone, so
  // the line ends of itself. At once without a line, and soon when a child still holds it open.
  void hear_out(std::uint32_t rank, std::function<void()> then);
  // The process of a local rank is gone (its children may still hold its line open).
  void rank_exited(std::uint32_t rank, const std::string& how);

  // Another process of the slot is about to start.
  void slot_restarts(std::uint32_t slot);
  // The members of a new epoch, who wait at their doors, are let in. What belongs to the old one
  // goes.
  void begin_epoch(std::uint32_t epoch, const std::vector<EpochMember>& members,
                   std::string data_key, std::string host_address);
  void meeting_wanted();
  // Nothing comes of the slot's process any more: its peers are told.
  void slot_dying(std::uint32_t slot, const std::string& how);

 private:
  using Channel = std::shared_ptr<FrameChannel>;
  struct Line {
    Channel channel;  // none: not joined, or left
    Channel door;     // has asked to join, and waits for the next epoch
    pid_t door_pid = 0;
    pid_t pid = 0;             // of who has joined; 0: it has no number here
    bool ended = false;        // nothing more comes over the channel
    bool exited = false;       // the process
    std::string how;           // it has
    bool in_fence = false;     // waits for the fence
    bool fence_is_up = false;  // and the coordinator has been told
    std::uint32_t fence = 0;   // its own number for it: it counts from 0 on every line
    std::string blob;
    std::function<void()> heard_out;  // to be called at the end of the line
    // The meeting (the fence to come) that it joined for, and one that it left before all had met.
    std::uint32_t meeting = 0;
    std::optional<std::uint32_t> broken_off = std::nullopt;
  };
  struct StoreRequest {
    std::uint32_t rank = 0;
    std::uint64_t request = 0;
  };

  void greet(const Channel& channel, pid_t peer);
  void refuse(const Channel& channel, Errc code, const std::string& reason);
  void join(const Channel& channel, pid_t peer, const Frame& frame);
  void wait_at_door(std::uint32_t slot, const Channel& channel, pid_t peer, std::string layout);
  void leave_door(std::uint32_t slot, const Channel& channel);
  void let_in(std::uint32_t slot, const Channel& channel, pid_t peer);
  void on_frame(std::uint32_t rank, const Frame& frame);
  Errc dispatch(std::uint32_t rank, const Frame& frame);
  Errc on_fence_enter(std::uint32_t rank, const Frame& frame);
  Errc on_segment_get(std::uint32_t rank, const Frame& frame);
  Errc on_peer_died(const Frame& frame);
  Errc on_timeline(std::uint32_t rank, const Frame& frame);
  Errc on_stall(std::uint32_t rank, const Frame& frame);
  // Sends what there is for the coordinator, and comes back when there is more.
  void serve_survey();
  void suspect(std::uint32_t rank, const Channel& channel);
  void end_hearing(std::uint32_t rank);
  void lose(std::uint32_t rank, bool clean, const std::string& reason, bool returns = false);
  void forward_fence(bool without_the_late = false);
  void wait_for_the_late();
  bool is_member(std::uint32_t slot) const { return members_.contains(slot); }

  template <class M>
  void up(const M& message) {
    options_.send_up(encode_frame(message, options_.epoch));
  }
  template <class M>
  void down(std::uint32_t rank, const M& message) {
    const auto it = lines_.find(rank);
    if (it != lines_.end() && it->second.channel) it->second.channel->send(message, options_.epoch);
  }

  boost::asio::io_context& io_;
  WorkerServerOptions options_;
  std::set<Channel> greeting_;
  std::map<std::uint32_t, Line> lines_;         // by slot
  std::map<std::uint32_t, RankPlace> members_;  // of the epoch, by slot
  std::set<std::uint32_t> have_joined_;         // the epoch
  std::map<std::uint64_t, StoreRequest> store_requests_;
  std::uint64_t next_request_ = 1;
  std::uint32_t fence_ = 0;  // the number of the epoch's current fence
  Segments segments_;
  boost::asio::steady_timer late_timer_;
  bool is_waiting_ = false;  // for a rank that is late in the fence
  HostSurvey survey_;
  boost::asio::steady_timer stall_timer_;
  bool said_no_memory_ = false;
  UnixListener listener_;
};

}  // namespace hvdrun
