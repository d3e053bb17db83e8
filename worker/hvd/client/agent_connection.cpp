#include "worker/hvd/client/agent_connection.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utility>

#include "common/base/descriptor_limit.h"
#include "common/base/limits.h"
#include "worker/hvd/client/agent_errors.h"
#include "worker/hvd/client/quiet_thread.h"
#include "worker/hvd/client/unix_socket.h"

namespace hvdrun {
namespace {

using hvd::ErrorCode;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLeaveTimeout{1'000};
constexpr std::chrono::milliseconds kReportTimeout{200};
// Between two looks of who waits at its door; the end of the line wakes it anyway.
constexpr std::chrono::seconds kDoorLook{10};

void check_length(const char* what, std::size_t size, std::size_t limit) {
  if (size > limit) {
    throw hvd::Error(ErrorCode::invalid_argument, std::string(what) + " of " +
                                                      std::to_string(size) + " bytes: at most " +
                                                      std::to_string(limit) + " are allowed");
  }
}

}  // namespace

AgentConnection::AgentConnection(const WorkerEnvironment& environment, Deadline deadline,
                                 std::string layout)
    : socket_(connect_agent(environment.agent, deadline)),
      event_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      session_(environment, static_cast<std::uint32_t>(::getpid()), std::move(layout)) {
  if (!event_) throw hvd::Error(ErrorCode::internal, "eventfd: " + system_fault_text(errno));
  thread_ = quiet_thread([this] { run(); });
  try {
    const MutexLock lock(mutex_);
    while (!is_joined_ && !lost_) {
      const auto until = session_.waits_at_door() ? steady_clock::now() + kDoorLook : deadline;
      const bool in_time = changed_.wait_until(mutex_, until) || session_.waits_at_door();
      if (!in_time && !is_joined_ && !lost_) {
        throw hvd::Error(ErrorCode::timeout,
                         "this host's hvdrun agent at '" + environment.agent +
                             "' accepted the connection but did not answer in time");
      }
    }
    if (!is_joined_) throw hvd::Error(*lost_);
  } catch (...) {
    stop();
    throw;
  }
}

AgentConnection::~AgentConnection() { stop(); }

void AgentConnection::stop() noexcept {
  if (!thread_.joinable()) return;
  {
    const MutexLock lock(mutex_);
    stop_ = true;
  }
  wake();
  thread_.join();
}

void AgentConnection::set_events(AgentEvents events) {
  const MutexLock lock(events_mutex_);
  events_ = std::move(events);
  if (!events_.peer_lost || !events_.connection_lost) return;
  for (const auto& deliver : undelivered_) deliver(events_);
  undelivered_.clear();
}

std::string AgentConnection::fence(std::string blob, Deadline deadline) {
  check_length("a fence blob", blob.size(), limits::kMaxFenceBlob);
  const MutexLock lock(mutex_);
  check_usable();
  const std::uint32_t number = session_.enter_fence(std::move(blob));
  const auto entry = fences_.emplace(number, std::nullopt).first;
  flushed_ = false;
  wake();
  bool in_time = true;
  while (!entry->second && !lost_ && !lost_peer_ && in_time)
    in_time = changed_.wait_until(mutex_, deadline);
  const std::optional<FenceOutcome> outcome = std::move(entry->second);
  fences_.erase(entry);
  if (outcome && outcome->released) return outcome->text;
  if (outcome) throw hvd::Error(ErrorCode::peer_lost, outcome->text);
  if (lost_) throw hvd::Error(*lost_);
  if (lost_peer_) throw hvd::Error(*lost_peer_);
  throw hvd::Error(ErrorCode::timeout, "not all of the " + std::to_string(joined_.topology.size) +
                                           " ranks arrived in time");
}

void AgentConnection::put(std::string key, std::string value, Deadline deadline) {
  check_length("a store key", key.size(), limits::kMaxStoreKey);
  check_length("a store value", value.size(), std::min(limits::kMaxStoreValue, limits::kMaxString));
  const std::string what = "store put '" + key + "'";
  const MutexLock lock(mutex_);
  check_usable();
  const std::uint64_t request = session_.put(std::move(key), std::move(value));
  const Reply reply = wait_reply(request, deadline, what);
  if (reply.code != Errc::ok) throw reply_error(reply.code, what);
}

std::optional<std::string> AgentConnection::get(std::string key, Deadline deadline) {
  check_length("a store key", key.size(), limits::kMaxStoreKey);
  const std::string what = "store get '" + key + "'";
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - steady_clock::now());
  const auto wait = std::clamp(left, std::chrono::milliseconds(0), limits::kMaxStoreWait);
  const MutexLock lock(mutex_);
  check_usable();
  const std::uint64_t request =
      session_.get(std::move(key), static_cast<std::uint32_t>(wait.count()));
  // The store counts the time; the extra covers a slow way back only.
  // A rank that is lost puts nothing any more, and the key may be its own.
  Reply reply = wait_reply(request, steady_clock::now() + wait + limits::kHandshakeTimeout, what,
                           WaitsFor::ranks);
  if (reply.code == Errc::timeout || reply.code == Errc::not_found) return std::nullopt;
  if (reply.code != Errc::ok) throw reply_error(reply.code, what);
  return std::move(reply.value);
}

UniqueFd AgentConnection::segment(std::string name, std::uint64_t size, Deadline deadline) {
  check_length("a segment name", name.size(), limits::kMaxStoreKey);
  const std::string what =
      "shared memory '" + name + "' of " + std::to_string(size) + " bytes from the agent";
  const MutexLock lock(mutex_);
  check_usable();
  const std::uint64_t request = session_.get_segment(std::move(name), size);
  Reply reply = wait_reply(request, deadline, what);
  if (reply.code != Errc::ok) throw reply_error(reply.code, what);
  return std::move(reply.segment);
}

void AgentConnection::drop_segment(std::string name) noexcept {
  try {
    const MutexLock lock(mutex_);
    if (lost_ || !is_joined_) return;
    session_.drop_segment(std::move(name));
    flushed_ = false;
    wake();
  } catch (const std::exception&) {
    return;  // out of memory: the agent keeps it until the job ends
  }
}

void AgentConnection::report(const hvd::Error& error,
                             std::optional<std::uint32_t> given_up) noexcept {
  flush_timeline();
  try {
    const MutexLock lock(mutex_);
    if (lost_ || !is_joined_) return;
    session_.collective_failed(
        {code_of(error), error.what(), given_up.value_or(0), given_up.has_value()});
    flushed_ = false;
    wake();
    // A program that does not catch the error is gone in a moment, and the I/O thread with it.
    const auto deadline = steady_clock::now() + kReportTimeout;
    while (!flushed_ && !lost_ && changed_.wait_until(mutex_, deadline)) {
    }
  } catch (const std::exception&) {
    return;  // out of memory: the program itself gets the error all the same
  }
}

void AgentConnection::report_stall(const StallReport& report) noexcept {
  try {
    const MutexLock lock(mutex_);
    if (lost_ || !is_joined_) return;
    session_.stall(0, report);
    wake();
  } catch (const std::exception&) {
    return;  // out of memory: the next report may get through
  }
}

void AgentConnection::report_death(std::uint32_t rank) noexcept {
  try {
    const MutexLock lock(mutex_);
    if (lost_ || !is_joined_) return;
    session_.peer_died(rank);
    wake();
  } catch (const std::exception&) {
    return;  // out of memory: the end of its line tells the launcher, too
  }
}

void AgentConnection::enter_elastic(std::string layout, Deadline deadline) {
  {
    const MutexLock lock(mutex_);
    check_usable();
    session_.enter_elastic(std::move(layout));
  }
  // Its answer comes after the coordinator has heard the other.
  put("elastic", {}, deadline);
}

void AgentConnection::leave(bool returns) noexcept {
  flush_timeline();
  const MutexLock lock(mutex_);
  if (lost_ || !is_joined_) return;
  session_.leave(returns);
  flushed_ = false;
  wake();
  const auto deadline = steady_clock::now() + kLeaveTimeout;
  while (!flushed_ && !lost_ && changed_.wait_until(mutex_, deadline)) {
  }
}

void AgentConnection::abandon_in_child() noexcept {
  ::close(socket_.release());
  ::close(event_.release());
}

void AgentConnection::check_usable() {
  if (lost_) throw hvd::Error(*lost_);
}

Reply AgentConnection::wait_reply(std::uint64_t request, Deadline deadline, const std::string& what,
                                  WaitsFor whom) {
  const bool needs_ranks = whom == WaitsFor::ranks;
  const auto entry = replies_.emplace(request, std::nullopt).first;
  flushed_ = false;
  wake();
  bool in_time = true;
  while (!entry->second && !lost_ && !(needs_ranks && lost_peer_) && in_time)
    in_time = changed_.wait_until(mutex_, deadline);
  std::optional<Reply> reply = std::move(entry->second);
  replies_.erase(entry);
  if (reply) return *std::move(reply);
  if (lost_) throw hvd::Error(*lost_);
  if (needs_ranks && lost_peer_) throw hvd::Error(*lost_peer_);
  throw hvd::Error(ErrorCode::timeout, what + ": no answer in time");
}

void AgentConnection::wake() const {
  const std::uint64_t one = 1;
  // A counter that is full wakes the thread too.
  [[maybe_unused]] const ssize_t written = ::write(event_.get(), &one, sizeof(one));
}

void AgentConnection::run() {
  std::string unsent;
  while (step(unsent)) {
  }
}

// Sends what is there, waits for something to do, reads once. False: the thread's work is over.
bool AgentConnection::step(std::string& unsent) {
  look_after_timeline(unsent.size());
  {
    const MutexLock lock(mutex_);
    if (stop_) return false;
    unsent += session_.take_output();
  }
  if (unsent.size() > limits::kMaxWriteQueue) {
    lose("the agent does not read what is sent to it");
    return false;
  }
  if (!unsent.empty()) {
    const long sent = send_some(socket_.get(), unsent);
    // A refusal may still wait to be read behind a closed door, so only reading ends the line.
    unsent.erase(0, sent < 0 ? unsent.size() : static_cast<std::size_t>(sent));
  }
  if (unsent.empty()) {
    const MutexLock lock(mutex_);
    if (!flushed_ && !session_.has_output()) {
      flushed_ = true;
      changed_.notify_all();
    }
  }
  const short socket_events = unsent.empty() ? POLLIN : POLLIN | POLLOUT;
  std::array<pollfd, 2> polled{pollfd{socket_.get(), socket_events, 0},
                               pollfd{event_.get(), POLLIN, 0}};
  if (::poll(polled.data(), polled.size(), poll_timeout()) < 0) return true;  // EINTR
  if (polled[1].revents != 0) {
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t got = ::read(event_.get(), &count, sizeof(count));
  }
  if ((polled[0].revents & ~POLLOUT) != 0) return receive_once();
  return true;
}

bool AgentConnection::receive_once() {
  std::array<char, 16384> buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  Received received = receive(socket_.get(), buffer.data(), buffer.size());
  if (received.again) return true;
  std::vector<SessionEvent> events;
  {
    const MutexLock lock(mutex_);
    if (received.error == 0 && received.bytes > 0) {
      session_.feed({buffer.data(), received.bytes}, std::move(received.descriptors));
    } else {
      session_.end_of_stream();
    }
    events = session_.take_events();
  }
  const bool over = !events.empty() && std::holds_alternative<LineFault>(events.back());
  dispatch(std::move(events));
  return !over;
}

void AgentConnection::dispatch(std::vector<SessionEvent> events) {
  for (SessionEvent& event : events) take_event(event);
}

void AgentConnection::take_event(SessionEvent& event) {
  if (auto* fault = std::get_if<LineFault>(&event)) return lose(fault->text);
  if (auto* ask = std::get_if<StallAsk>(&event)) return answer_stall(ask->request);
  if (auto* peer = std::get_if<PeerGaveUp>(&event)) {
    // None can be given up before there are any.
    const MutexLock lock(events_mutex_);
    if (events_.peer_gave_up) events_.peer_gave_up(*peer);
    return;
  }
  auto* peer = std::get_if<PeerLost>(&event);
  {
    const MutexLock lock(mutex_);
    if (auto* joined = std::get_if<Joined>(&event)) {
      joined_ = std::move(*joined);
      is_joined_ = true;
    } else if (auto* reply = std::get_if<Reply>(&event)) {
      const auto found = replies_.find(reply->request);
      if (found != replies_.end()) found->second = std::move(*reply);
    } else if (auto* outcome = std::get_if<FenceOutcome>(&event)) {
      fence_opened_ = fence_opened_ || outcome->released;
      const auto found = fences_.find(outcome->fence);
      if (found != fences_.end()) found->second = std::move(*outcome);
    } else if (peer != nullptr) {
      // A rank that shuts down and joins again is ahead of or behind us by one init().
      if (peer->clean && !fence_opened_) return;
      if (!peer->clean && !lost_peer_) lost_peer_ = peer_lost_error(*peer);
    } else if (std::holds_alternative<MeetingWanted>(event)) {
      meeting_wanted_.store(true, std::memory_order_relaxed);
    }
    changed_.notify_all();
  }
  if (peer == nullptr) return;
  const MutexLock lock(events_mutex_);
  if (events_.peer_lost) return events_.peer_lost(*peer);
  undelivered_.emplace_back(
      [lost = std::move(*peer)](const AgentEvents& to) { to.peer_lost(lost); });
}

// On the I/O thread, which sends it before it waits again.
void AgentConnection::answer_stall(std::uint64_t request) {
  StallReport report;
  {
    const MutexLock lock(events_mutex_);
    // Nobody listens yet, or any more: in hvd::init() and hvd::shutdown() nothing is submitted.
    if (events_.stall_asked) report = events_.stall_asked();
  }
  const MutexLock lock(mutex_);
  session_.stall(request, std::move(report));
}

void AgentConnection::lose(const std::string& text) {
  const hvd::Error error(ErrorCode::unavailable, "the line to this host's agent is lost: " + text);
  {
    const MutexLock lock(mutex_);
    lost_ = error;
    changed_.notify_all();
  }
  const MutexLock lock(events_mutex_);
  if (events_.connection_lost) return events_.connection_lost(error);
  undelivered_.emplace_back([error](const AgentEvents& to) { to.connection_lost(error); });
}

}  // namespace hvdrun
