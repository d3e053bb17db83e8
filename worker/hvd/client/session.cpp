#include "worker/hvd/client/session.h"

#include <algorithm>

#include "common/net/hmac_sha256.h"

namespace hvdrun {

Session::Session(const WorkerEnvironment& environment, std::uint32_t pid, std::string layout)
    : environment_(environment), epoch_(environment.epoch) {
  Hello hello;
  hello.role = Role::worker;
  hello.job_id = environment.job_id;
  send(hello);
  send(WorkerJoin{environment.rank, pid, std::move(layout)});
}

void Session::feed(std::string_view bytes, std::vector<UniqueFd> descriptors) {
  // One descriptor per requested segment at most; what nobody asked for is closed right here.
  const std::size_t wanted = std::min(pending_segments_, kMaxWaitingDescriptors);
  for (UniqueFd& fd : descriptors)
    if (state_ != State::lost && descriptors_.size() < wanted)
      descriptors_.push_back(std::move(fd));
  if (state_ == State::lost) return;
  decoder_.feed(bytes);
  while (state_ != State::lost) {
    std::error_code ec;
    const std::optional<Frame> frame = decoder_.next(ec);
    if (ec) return fault(ec, "the agent sent a damaged frame: " + ec.message());
    if (!frame) return;
    on_frame(*frame);
  }
}

void Session::end_of_stream() {
  if (state_ != State::lost) fault(Errc::closed, "the agent closed the connection");
}

std::uint32_t Session::enter_fence(std::string blob) {
  const std::uint32_t fence = next_fence_++;
  send(FenceEnter{fence, {environment_.rank}, std::move(blob)});
  return fence;
}

std::uint64_t Session::put(std::string key, std::string value) {
  const std::uint64_t request = next_request_++;
  pending_.emplace(request, MessageType::store_put);
  send(StorePut{request, std::move(key), std::move(value)});
  return request;
}

std::uint64_t Session::get(std::string key, std::uint32_t timeout_ms) {
  const std::uint64_t request = next_request_++;
  pending_.emplace(request, MessageType::store_get);
  send(StoreGet{request, std::move(key), timeout_ms});
  return request;
}

std::uint64_t Session::get_segment(std::string name, std::uint64_t size) {
  const std::uint64_t request = next_request_++;
  pending_.emplace(request, MessageType::segment_get);
  ++pending_segments_;
  send(SegmentGet{request, std::move(name), size});
  return request;
}

void Session::drop_segment(std::string name) { send(SegmentDrop{std::move(name)}); }

void Session::leave(bool returns) { send(WorkerLeave{returns}); }

void Session::enter_elastic(std::string layout) {
  send(ElasticEntered{environment_.rank, std::move(layout)});
}

void Session::peer_died(std::uint32_t rank) { send(PeerDied{rank}); }

void Session::collective_failed(CollectiveFailed message) {
  if (message.text.size() > limits::kMaxTrouble) message.text.resize(limits::kMaxTrouble);
  send(message);
}

void Session::timeline(TimelineBatch batch) {
  batch.rank = environment_.rank;
  send(batch);
}

void Session::timeline(TimelineControl control) {
  control.rank = environment_.rank;
  if (control.path.size() > limits::kMaxTimelinePath) control.path.clear();
  send(control);
}

void Session::stall(std::uint64_t request, StallReport report) {
  // Every rank cuts a long name alike, so the same tensor is still recognized.
  const auto cut = [](std::string& name) {
    if (name.size() > limits::kMaxTensorName) name.resize(limits::kMaxTensorName);
  };
  report.pending_count = std::max<std::uint64_t>(report.pending_count, report.pending.size());
  if (report.pending.size() > limits::kMaxPendingTensors)
    report.pending.resize(limits::kMaxPendingTensors);
  for (PendingTensor& tensor : report.pending) cut(tensor.name);
  // Those of process sets have the ranks with them; a set too large to be told counts as everybody.
  if (!report.pending.empty() && report.pending.front().ranks.size() > limits::kMaxPendingRanks)
    report.pending.front().ranks.clear();
  while (ranks_in(report) > limits::kMaxPendingRanks) report.pending.pop_back();
  cut(report.last_submitted);
  if (report.unconnected.size() > limits::kMaxPendingRanks)
    report.unconnected.resize(limits::kMaxPendingRanks);
  send(WorkerStall{request, std::move(report)});
}

void Session::on_frame(const Frame& frame) {
  if (frame.type == MessageType::refuse) {
    Refuse refuse;
    if (take(frame, refuse)) fault(refuse.code, "the agent refused this worker: " + refuse.reason);
    return;
  }
  if (frame.type == MessageType::heartbeat) return;
  switch (state_) {
    case State::wait_welcome:
      return on_welcome(frame);
    case State::wait_topology:
      return on_topology(frame);
    case State::joined:
      return on_joined_frame(frame);
    case State::lost:
      return;
  }
}

void Session::on_welcome(const Frame& frame) {
  Welcome welcome;
  if (frame.type != MessageType::welcome)
    return fault(Errc::unexpected_message, "the agent did not begin with a welcome");
  if (!take(frame, welcome)) return;
  if (welcome.version != kProtocolVersion)
    return fault(Errc::version_mismatch, "the agent speaks protocol version " +
                                             std::to_string(welcome.version) + ", this libhvd " +
                                             std::to_string(kProtocolVersion));
  state_ = State::wait_topology;
}

void Session::on_topology(const Frame& frame) {
  Joined joined;
  if (frame.type != MessageType::worker_topology)
    return fault(Errc::unexpected_message, "the agent did not say where this rank stands");
  if (!take(frame, joined.topology)) return;
  const WorkerTopology& place = joined.topology;
  // The environment has the first rank of this process's slot.
  const bool is_ours = place.elastic || place.rank == environment_.rank;
  const bool sane = is_ours && place.size <= limits::kMaxRanks && place.rank < place.size &&
                    place.local_size <= place.size && place.local_rank < place.local_size &&
                    place.cross_rank < place.cross_size && place.cross_size <= place.size &&
                    place.local_ranks.size() == place.local_size &&
                    place.local_ranks[place.local_rank] == place.rank &&
                    (place.data_key.empty() || place.data_key.size() == kSha256Bytes) &&
                    place.first_port <= place.last_port;
  if (!sane) return fault(Errc::malformed, "the agent gave this rank an impossible place");
  epoch_ = joined.epoch = frame.epoch;
  job_size_ = place.size;
  state_ = State::joined;
  events_.emplace_back(std::move(joined));
}

void Session::on_joined_frame(const Frame& frame) {
  if (frame.epoch != epoch_)
    return fault(Errc::wrong_epoch, "the agent sent a message of epoch " +
                                        std::to_string(frame.epoch) + ", this is epoch " +
                                        std::to_string(epoch_));
  switch (frame.type) {
    case MessageType::fence_release: {
      FenceRelease message;
      if (take(frame, message)) on_fence(message.fence, true, std::move(message.blob));
      return;
    }
    case MessageType::fence_failed: {
      FenceFailed message;
      if (take(frame, message)) on_fence(message.fence, false, std::move(message.reason));
      return;
    }
    case MessageType::store_ack: {
      StoreAck message;
      if (take(frame, message)) on_reply(MessageType::store_put, message.request, message.code, {});
      return;
    }
    case MessageType::store_value: {
      StoreValue message;
      if (take(frame, message))
        on_reply(MessageType::store_get, message.request, message.code, std::move(message.value));
      return;
    }
    case MessageType::segment: {
      Segment message;
      if (take(frame, message))
        on_reply(MessageType::segment_get, message.request, message.code, {});
      return;
    }
    case MessageType::peer_lost: {
      PeerLost message;
      if (!take(frame, message)) return;
      if (message.rank >= job_size_)
        return fault(Errc::malformed, "the agent named a rank that does not exist");
      events_.emplace_back(std::move(message));
      return;
    }
    case MessageType::peer_gave_up: {
      PeerGaveUp message;
      if (!take(frame, message)) return;
      if (message.rank >= job_size_)
        return fault(Errc::malformed, "the agent named a rank that does not exist");
      events_.emplace_back(std::move(message));
      return;
    }
    case MessageType::stall_ask: {
      StallAsk message;
      if (take(frame, message)) events_.emplace_back(message);
      return;
    }
    case MessageType::meeting_wanted:
      events_.emplace_back(MeetingWanted{});
      return;
    default:
      return fault(Errc::unexpected_message, "the agent sent a message of type " +
                                                 std::to_string(static_cast<unsigned>(frame.type)) +
                                                 " to a worker");
  }
}

void Session::on_fence(std::uint32_t fence, bool released, std::string text) {
  if (fence != oldest_fence_ || fence >= next_fence_)
    return fault(Errc::unexpected_message, "the agent answered a fence that is not waiting");
  ++oldest_fence_;
  events_.emplace_back(FenceOutcome{fence, released, std::move(text)});
}

void Session::on_reply(MessageType request_type, std::uint64_t request, Errc code,
                       std::string value) {
  const auto found = pending_.find(request);
  if (found == pending_.end() || found->second != request_type)
    return fault(Errc::unexpected_message, "the agent answered a request that is not waiting");
  pending_.erase(found);
  Reply reply{request, code, std::move(value), {}};
  if (request_type == MessageType::segment_get) {
    --pending_segments_;
    if (code == Errc::ok) {
      if (descriptors_.empty())
        return fault(Errc::malformed, "the agent promised a segment but sent no descriptor");
      reply.segment = std::move(descriptors_.front());
      descriptors_.pop_front();
    }
  }
  events_.emplace_back(std::move(reply));
}

template <class M>
bool Session::take(const Frame& frame, M& message) {
  const std::error_code ec = decode(frame.payload, message);
  if (ec) fault(ec, "the agent sent a message that does not decode: " + ec.message());
  return !ec;
}

template <class M>
void Session::send(const M& message) {
  output_ += encode_frame(message, epoch_);
}

void Session::fault(std::error_code code, std::string text) {
  state_ = State::lost;
  descriptors_.clear();
  events_.emplace_back(LineFault{code, std::move(text)});
}

}  // namespace hvdrun
