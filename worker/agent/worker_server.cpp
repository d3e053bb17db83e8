#include "worker/agent/worker_server.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fcntl.h>
#include <optional>
#include <system_error>
#include <utility>

#include "common/base/fault_text.h"
#include "common/base/limits.h"
#include "common/wire/hello.h"

namespace hvdrun {
namespace {

namespace asio = boost::asio;

constexpr std::chrono::milliseconds kExitStatusPatience{100};
// For what a process that is gone has written before.
constexpr std::chrono::milliseconds kLastWordsPatience{50};
// The time that a rank may wait in the fence for another of its host before the coordinator is
// told.
constexpr std::chrono::milliseconds kFencePatience{500};

}  // namespace

WorkerServer::WorkerServer(asio::io_context& io, WorkerServerOptions options)
    : io_(io),
      options_(std::move(options)),
      late_timer_(io),
      stall_timer_(io),
      listener_(
          io, options_.name,
          [this](std::unique_ptr<ByteStream> stream, pid_t peer) {
            // All ranks of this host may come at once.
            if (greeting_.size() < lines_.size() + limits::kMaxPendingHandshakes)
              greet(std::make_shared<FrameChannel>(std::move(stream)), peer);
          },
          [this](const std::string& text) {
            if (options_.trouble) options_.trouble(text);
          }) {
  for (const RankPlace& local : options_.ranks) {
    lines_[local.rank] = {};
    if (!options_.joins_later) members_[local.rank] = local;
  }
}

// Hello, then WorkerJoin; both before the deadline.
void WorkerServer::greet(const Channel& channel, pid_t peer) {
  greeting_.insert(channel);
  const std::weak_ptr<FrameChannel> weak = channel;
  const auto deadline = std::make_shared<asio::steady_timer>(io_, limits::kHandshakeTimeout);
  deadline->async_wait([this, weak](const auto& ec) {
    const auto late = weak.lock();
    if (!ec && late && greeting_.contains(late)) refuse(late, Errc::timeout, "no hello came");
  });
  channel->start(
      [this, weak, deadline, peer, greeted = false](const Frame& frame) mutable {
        const auto self = weak.lock();
        if (!self || !greeting_.contains(self)) return;
        if (!greeted) {
          Hello hello;
          if (const auto refusal = check_hello(frame, options_.job_id, hello))
            return refuse(self, refusal->code, refusal->reason);
          if (hello.role != Role::worker)
            return refuse(self, Errc::unexpected_message, "only workers are expected here");
          greeted = true;
          return;
        }
        deadline->cancel();
        join(self, peer, frame);
      },
      [this, weak, deadline](std::error_code) {
        deadline->cancel();
        greeting_.erase(weak.lock());
      });
}

void WorkerServer::refuse(const Channel& channel, Errc code, const std::string& reason) {
  greeting_.erase(channel);
  channel->send(Refuse{code, reason});
  channel->close_when_sent();
}

void WorkerServer::join(const Channel& channel, pid_t peer, const Frame& frame) {
  WorkerJoin message;
  // The frame may be of whatever epoch: the process may be older than the assignment, which the
  // answer names.
  if (frame.type != MessageType::worker_join || decode(frame.payload, message) ||
      message.layout.size() > limits::kMaxStateLayout)
    return refuse(channel, Errc::malformed, "a join was expected");
  const auto line = lines_.find(message.rank);
  if (line == lines_.end() || line->second.exited)
    return refuse(channel, Errc::not_found,
                  "rank " + std::to_string(message.rank) + " does not run on this host");
  const std::string name = "rank " + std::to_string(message.rank);
  const auto owner = options_.rank_started ? rank_of_process(peer, options_.rank_started)
                                           : std::optional<std::uint32_t>();
  if (owner && *owner != message.rank)
    return refuse(channel, Errc::unexpected_message,
                  process_text(peer) + " cannot join as " + name + ", as its HVD_RANK says: rank " +
                      std::to_string(*owner) + " has started it");
  // A line that has ended is still there for a moment; who comes back knows that it has.
  if (options_.elastic && line->second.channel && line->second.ended)
    lose(message.rank, false, "it closed its line to the agent");
  if (line->second.channel || line->second.door)
    return refuse(channel, Errc::unexpected_message,
                  name + " has joined already: " +
                      (line->second.pid > 0 ? process_text(line->second.pid) : "another process"));
  // A process that has left an epoch, or is new to it, comes to the next one.
  if (options_.elastic && (have_joined_.contains(message.rank) || !is_member(message.rank)))
    return wait_at_door(message.rank, channel, peer, std::move(message.layout));
  // The others' hvd::init has failed for it. What that meeting has left behind, in shared memory,
  // the store and the other hosts, must not be taken for the next one's.
  if (line->second.broken_off == fence_)
    return refuse(channel, Errc::aborted,
                  name +
                      " has left hvd::init() before all ranks had met, which has ended it for all "
                      "of them; it cannot join any more");
  let_in(message.rank, channel, peer);
}

void WorkerServer::let_in(std::uint32_t rank, const Channel& channel, pid_t peer) {
  greeting_.erase(channel);
  Line& line = lines_[rank];
  const bool was_at_door = line.door == channel;
  line = {};
  line.channel = channel;
  line.meeting = fence_;
  line.pid = peer;
  have_joined_.insert(rank);
  channel->set_callbacks([this, rank](const Frame& next) { on_frame(rank, next); },
                         [this, weak = std::weak_ptr(channel), rank](std::error_code) {
                           if (const auto ended = weak.lock()) suspect(rank, ended);
                         });
  WorkerTopology topology;
  static_cast<RankPlace&>(topology) = members_.at(rank);
  topology.usable_cores = options_.usable_cores;
  topology.data_key = options_.data_key;
  topology.address = options_.host_address;
  topology.encrypt_data = options_.encrypt_data;
  topology.first_port = options_.ports.first;
  topology.last_port = options_.ports.last;
  topology.stall_warning = options_.stall_warning;
  topology.stall_shutdown = options_.stall_shutdown;
  topology.generation = fence_;
  topology.elastic = options_.elastic;
  topology.local_ranks.resize(members_.size());
  for (const auto& [slot, place] : members_) topology.local_ranks[place.local_rank] = place.rank;
  if (!was_at_door) channel->send(Welcome{}, options_.epoch);
  channel->send(topology, options_.epoch);
  up(RanksJoined{{rank}});
}

void WorkerServer::on_frame(std::uint32_t rank, const Frame& frame) {
  const bool is_current = frame.epoch == options_.epoch;
  if (is_current && frame.type == MessageType::worker_leave) {
    WorkerLeave message;
    if (!decode(frame.payload, message)) return lose(rank, true, "", message.returns);
  }
  const Errc fault = is_current ? dispatch(rank, frame) : Errc::wrong_epoch;
  if (fault != Errc::ok) {
    down(rank, Refuse{fault, make_error_code(fault).message()});
    lose(rank, false, "it sent what the agent does not understand");
  }
}

Errc WorkerServer::dispatch(std::uint32_t rank, const Frame& frame) {
  switch (frame.type) {
    case MessageType::fence_enter:
      return on_fence_enter(rank, frame);
    case MessageType::segment_get:
      return on_segment_get(rank, frame);
    case MessageType::segment_drop: {
      SegmentDrop message;
      if (decode(frame.payload, message) ||
          !message.name.starts_with("mem/" + std::to_string(members_.at(rank).rank) + "/"))
        return Errc::malformed;
      segments_.drop(message.name);
      return Errc::ok;
    }
    case MessageType::store_put: {
      StorePut message;
      if (decode(frame.payload, message)) return Errc::malformed;
      store_requests_[next_request_] = {rank, std::exchange(message.request, next_request_)};
      ++next_request_;
      up(message);
      return Errc::ok;
    }
    case MessageType::store_get: {
      StoreGet message;
      if (decode(frame.payload, message)) return Errc::malformed;
      store_requests_[next_request_] = {rank, std::exchange(message.request, next_request_)};
      ++next_request_;
      up(message);
      return Errc::ok;
    }
    case MessageType::collective_failed: {
      CollectiveFailed message;
      if (decode(frame.payload, message)) return Errc::malformed;
      up(RankTrouble{rank, message.code, std::move(message.text), message.process_set,
                     message.gives_up});
      return Errc::ok;
    }
    case MessageType::elastic_entered: {
      ElasticEntered message;
      if (decode(frame.payload, message) || message.layout.size() > limits::kMaxStateLayout)
        return Errc::malformed;
      message.slot = rank;
      up(message);
      return Errc::ok;
    }
    case MessageType::peer_died:
      return on_peer_died(frame);
    case MessageType::timeline_batch:
    case MessageType::timeline_control:
      return on_timeline(rank, frame);
    case MessageType::worker_stall:
      return on_stall(rank, frame);
    default:
      return Errc::unexpected_message;
  }
}

Errc WorkerServer::on_timeline(std::uint32_t rank, const Frame& frame) {
  TimelineBatch batch;
  TimelineControl control;
  if (frame.type == MessageType::timeline_batch) {
    if (decode(frame.payload, batch) || batch.rank != rank) return Errc::malformed;
    if (batch.bytes.size() > limits::kMaxTimelineBatch) return Errc::limit_exceeded;
    if (options_.timeline_batch) options_.timeline_batch(std::move(batch));
  } else {
    if (decode(frame.payload, control) || control.rank != rank) return Errc::malformed;
    if (control.path.size() > limits::kMaxTimelinePath) return Errc::limit_exceeded;
    if (options_.timeline_control) options_.timeline_control(std::move(control));
  }
  return Errc::ok;
}

Errc WorkerServer::on_stall(std::uint32_t rank, const Frame& frame) {
  WorkerStall message;
  if (decode(frame.payload, message) || !within_limits(message.report)) return Errc::malformed;
  if (message.request == 0) {
    survey_.reported(rank, std::move(message.report), std::chrono::steady_clock::now());
  } else {
    survey_.answered(rank, message.request, std::move(message.report));
  }
  serve_survey();
  return Errc::ok;
}

void WorkerServer::survey(std::uint64_t request) {
  std::set<std::uint32_t> asked;
  for (const auto& [rank, line] : lines_) {
    if (!line.channel) continue;
    asked.insert(rank);
    down(rank, StallAsk{request});
  }
  survey_.ask(request, std::move(asked), std::chrono::steady_clock::now());
  serve_survey();
}

void WorkerServer::serve_survey() {
  const auto now = std::chrono::steady_clock::now();
  if (const auto notice = survey_.take_notice(now)) up(*notice);
  if (auto answer = survey_.take_answer(now)) options_.surveyed(std::move(*answer));
  const auto next = survey_.next_deadline();
  if (!next || stall_timer_.expiry() == *next) return;
  stall_timer_.expires_at(*next);
  stall_timer_.async_wait([this](const auto& ec) {
    if (!ec) serve_survey();
  });
}

pid_t WorkerServer::pid_of(std::uint32_t rank) const {
  const auto line = lines_.find(rank);
  return line != lines_.end() && line->second.channel ? line->second.pid : 0;
}

Errc WorkerServer::on_segment_get(std::uint32_t rank, const Frame& frame) {
  SegmentGet message;
  if (decode(frame.payload, message)) return Errc::malformed;
  int fd = -1;
  std::error_code ec = segments_.open(message.name, message.size, fd);
  UniqueFd copy(ec ? -1 : ::fcntl(fd, F_DUPFD_CLOEXEC, 3));
  if (!ec && !copy) ec = {errno, std::system_category()};
  Segment answer{message.request, Errc::ok, message.size};
  if (!ec) {
    lines_[rank].channel->send_with_fd(encode_frame(answer, options_.epoch), std::move(copy));
    return Errc::ok;
  }
  const bool is_ours = ec.category() == hvdrun_category();
  answer.code = is_ours ? static_cast<Errc>(ec.value()) : Errc::limit_exceeded;
  // The rank learns that it is over a limit; which one, only here, and of the first rank only.
  if (!is_ours && options_.trouble && !std::exchange(said_no_memory_, true))
    options_.trouble("shared memory of " + std::to_string(message.size) + " bytes for rank " +
                     std::to_string(rank) + ": " + fault_text(ec));
  down(rank, answer);
  return Errc::ok;
}

Errc WorkerServer::on_fence_enter(std::uint32_t rank, const Frame& frame) {
  FenceEnter message;
  if (decode(frame.payload, message)) return Errc::malformed;
  Line& line = lines_[rank];
  if (message.ranks != std::vector<std::uint32_t>{rank} || line.in_fence) return Errc::malformed;
  line.in_fence = true;
  line.fence_is_up = false;
  line.fence = message.fence;
  line.blob = std::move(message.blob);
  forward_fence();
  return Errc::ok;
}

// Up goes one frame, once every rank of this host that can still come is inside. Where one of them
// does not come for a while, those who wait go ahead: the coordinator is to know whom they miss.
void WorkerServer::forward_fence(bool without_the_late) {
  FenceEnter message;
  message.fence = fence_;
  for (auto& [rank, line] : lines_) {
    if (line.exited || line.fence_is_up || !is_member(rank)) continue;
    if (!line.in_fence) {
      if (without_the_late) continue;
      return wait_for_the_late();
    }
    message.ranks.push_back(rank);
    if (!line.blob.empty()) message.blob = line.blob;
  }
  if (message.ranks.empty()) return;
  for (const std::uint32_t rank : message.ranks) lines_[rank].fence_is_up = true;
  up(message);
}

void WorkerServer::wait_for_the_late() {
  if (std::exchange(is_waiting_, true)) return;
  late_timer_.expires_after(kFencePatience);
  late_timer_.async_wait([this](const auto& ec) {
    is_waiting_ = false;
    if (!ec) forward_fence(true);
  });
}

void WorkerServer::fence_release(const FenceRelease& message) {
  fence_ = message.fence + 1;
  for (auto& [rank, line] : lines_) {
    if (!line.fence_is_up) continue;
    line.in_fence = line.fence_is_up = false;
    line.blob.clear();
    down(rank, FenceRelease{line.fence, message.blob});
  }
}

void WorkerServer::fence_failed(const FenceFailed& message) {
  for (auto& [rank, line] : lines_) {
    if (!line.in_fence) continue;
    line.in_fence = line.fence_is_up = false;
    line.blob.clear();
    down(rank, FenceFailed{line.fence, message.reason});
  }
}

void WorkerServer::store_ack(const StoreAck& message) {
  const auto asked = store_requests_.find(message.request);
  if (asked == store_requests_.end()) return;
  down(asked->second.rank, StoreAck{asked->second.request, message.code});
  store_requests_.erase(asked);
}

void WorkerServer::store_value(const StoreValue& message) {
  const auto asked = store_requests_.find(message.request);
  if (asked == store_requests_.end()) return;
  down(asked->second.rank, StoreValue{asked->second.request, message.code, message.value});
  store_requests_.erase(asked);
}

// It names a rank of the epoch.
void WorkerServer::peer_lost(const PeerLost& message) {
  for (const auto& [slot, place] : members_)
    if (place.rank != message.rank) down(slot, message);
}

void WorkerServer::peer_gave_up(const PeerGaveUp& message) {
  for (const auto& [rank, line] : lines_) down(rank, message);
}

void WorkerServer::lose(std::uint32_t rank, bool clean, const std::string& reason, bool returns) {
  Line& line = lines_[rank];
  if (!line.channel) return;
  line.channel->close_when_sent();
  line.channel.reset();
  line.in_fence = line.fence_is_up = false;
  if (!clean && line.meeting == fence_) line.broken_off = fence_;
  survey_.gone(rank);
  serve_survey();
  // Answers to what it asked must not reach its successor.
  std::erase_if(store_requests_, [rank](const auto& asked) { return asked.second.rank == rank; });
  up(RankLeft{rank, clean, returns});
  if (is_member(rank)) peer_lost({members_.at(rank).rank, clean, reason});
  // Nobody is left who could ask for them, and those who have them keep them.
  const bool all_left = std::none_of(lines_.begin(), lines_.end(),
                                     [](const auto& entry) { return entry.second.channel; });
  if (all_left) segments_.clear();
  end_hearing(rank);
}

// A line ends a moment before its process does: whoever asks then what happened gets the exit
// status for an answer. It is not waited for long, because peers are waiting too.
void WorkerServer::suspect(std::uint32_t rank, const Channel& channel) {
  if (lines_[rank].channel == channel) lines_[rank].ended = true;
  end_hearing(rank);
  if (lines_[rank].channel != channel) return;  // its process is known to be gone
  const auto patience = std::make_shared<boost::asio::steady_timer>(io_, kExitStatusPatience);
  patience->async_wait([this, rank, channel, patience](const auto&) {
    if (lines_[rank].channel == channel) lose(rank, false, "it closed its line to the agent");
  });
}

// The end of a process may be seen before what it wrote last, which tells why it ended.
void WorkerServer::hear_out(std::uint32_t rank, std::function<void()> then) {
  const auto line = lines_.find(rank);
  if (line == lines_.end() || !line->second.channel || line->second.ended) return then();
  line->second.heard_out = std::move(then);
  const auto patience = std::make_shared<boost::asio::steady_timer>(io_, kLastWordsPatience);
  patience->async_wait([this, rank, patience](const auto&) { end_hearing(rank); });
}

void WorkerServer::end_hearing(std::uint32_t rank) {
  if (const auto then = std::exchange(lines_[rank].heard_out, {})) then();
}

void WorkerServer::rank_exited(std::uint32_t rank, const std::string& how) {
  const auto line = lines_.find(rank);
  if (line == lines_.end()) return;
  // A member that has left its door before it was let in: the others wait for it all the same.
  const bool never_came = options_.elastic && is_member(rank) && !have_joined_.contains(rank);
  lose(rank, false, how);
  if (never_came) {
    have_joined_.insert(rank);
    peer_lost({members_.at(rank).rank, false, how});
  }
  if (line->second.door) line->second.door->close();
  line->second.door.reset();
  line->second.exited = true;
  line->second.how = how;
  forward_fence();
}

}  // namespace hvdrun
