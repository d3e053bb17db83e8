#include "worker/agent/agent.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include <boost/asio/write.hpp>

#include "common/base/descriptor_limit.h"
#include "common/base/fault_text.h"
#include "common/base/limits.h"
#include "common/base/printable.h"
#include "common/host/usable_cores.h"
#include "common/process/process_tree.h"
#include "common/process/signal_words.h"
#include "worker/agent/ranks/master_port.h"
#include "worker/agent/ranks/oom_count.h"
#include "worker/agent/ranks/peer_loss.h"
#include "worker/agent/ranks/rank_folder.h"

namespace hvdrun {
namespace {

namespace asio = boost::asio;

// Between two passes over what is being killed.
constexpr std::chrono::milliseconds kSweepPause{2};
constexpr std::size_t kMaxLossLine = 300;  // bytes

auto now() { return std::chrono::steady_clock::now(); }

std::string describe(const ExitStatus& status) {
  if (!status.signaled) return "its process exited with code " + std::to_string(status.value);
  return "its process was killed by " + signal_text(static_cast<std::uint32_t>(status.value));
}

}  // namespace

Agent::Agent(asio::io_context& io, Bootstrap bootstrap, UniqueFd guard)
    : io_(io),
      bootstrap_(std::move(bootstrap)),
      guard_(io, guard.release()),
      way_back_(io, bootstrap_, [this] { give_up(); }),
      child_signal_(io, SIGCHLD),
      leave_signal_(io),
      timer_(io),
      pump_(io, [this] { finish_if_quiet(); }),
      input_(io),
      // A socket pair: the coordinator is on this machine.
      timeline_(own_clock(), bootstrap_.control.addresses.empty()),
      descriptor_limit_(raise_descriptor_limit()),
      cores_(usable_cores()) {
  if (!bootstrap_.control.addresses.empty()) {
    lease_.emplace(lease_length(), now());
    next_heartbeat_ = now() + heartbeat_of(lease_length());
  }
  watch_guard();
  reap();
  pump_.on_stderr = [this](std::uint32_t rank, std::string_view lines) {
    if (told_of_loss_.count(rank) != 0) return;
    const auto [line, code] = find_peer_loss(lines);
    if (line.empty()) return;
    told_of_loss_.insert(rank);
    up(RankTrouble{rank, code, printable(line.substr(0, kMaxLossLine))});
  };
  open(Role::output, [this](Channel output) {
    output_ = std::move(output);
    output_->keep_trying_for(limits::kOutputPatience);
    pump_.set_viewer(output_);
    input_.set_viewer(output_);
    output_->set_callbacks([this](const Frame& frame) { on_output_channel(frame); },
                           [this](std::error_code) {
                             output_.reset();
                             pump_.set_viewer(nullptr);
                             if (files_) files_->set_viewer(nullptr);
                             input_.set_viewer(nullptr);
                           });
    open(Role::agent, [this](const Channel& control) { serve(control); });
  });
  arm_timer();
}

int Agent::run() {
  io_.run();
  // Whatever happened: nothing below this process stays.
  kill_descendants_and_wait();
  return exit_code_;
}

void Agent::watch_guard() {
  guard_.async_read_some(asio::buffer(guard_buffer_), [this](const auto& ec, std::size_t size) {
    if (ec) return give_up();
    way_back_.feed({guard_buffer_.data(), size});
    watch_guard();
  });
}

void Agent::give_up() {
  exit_code_ = 1;
  io_.stop();
}

void Agent::open(Role role, std::function<void(Channel)> next) {
  way_back_.open(role, [this, role, next = std::move(next)](std::error_code ec,
                                                            std::unique_ptr<ByteStream> stream) {
    if (!ec) return say_hello(std::make_shared<FrameChannel>(std::move(stream)), role, next);
    std::fprintf(stderr, "hvd-agent on %s: cannot reach the %s: %s\n", bootstrap_.host_name.c_str(),
                 role == Role::agent ? "coordinator" : "viewer", way_back_.why_not(ec).c_str());
    give_up();
  });
}

void Agent::say_hello(const Channel& channel, Role role, std::function<void(Channel)> next) {
  const std::weak_ptr<FrameChannel> weak = channel;
  // The pending read keeps the channel alive until Welcome has come, or the lease has run out.
  channel->start(
      [this, weak, next = std::move(next)](const Frame& frame) {
        if (frame.type != MessageType::welcome) return give_up();
        if (lease_) lease_->heard(now());
        next(weak.lock());
      },
      [this](std::error_code) { give_up(); });
  Hello hello;
  hello.role = role;
  hello.host_index = bootstrap_.host_index;
  hello.job_id = bootstrap_.job_id;
  channel->send(hello);
}

void Agent::serve(const Channel& control) {
  control_ = control;
  control_->keep_trying_for(patience_of(lease_length()));
  control_->set_callbacks([this](const Frame& frame) { on_control(frame); },
                          [this](std::error_code) {
                            // After the end of the job the coordinator may go first: output may
                            // still be on its way to a slow reader.
                            if (!ending_) return give_up();
                            control_.reset();
                          });
  AgentReady ready;
  ready.address = way_back_.own_address(control_->local_ip());
  ready.pid = static_cast<std::uint32_t>(::getpid());
  ready.usable_cores = cores_;
  master_socket_ = hold_free_port({bootstrap_.first_port, bootstrap_.last_port}, ready.master_port);
  up(ready);
}

void Agent::on_control(const Frame& frame) {
  if (lease_) lease_->heard(now());
  // Runs `handle` with the decoded message, or ends: the coordinator is not to be trusted then.
  const auto with = [&]<class M>(M message, auto&& handle) {
    if (decode(frame.payload, message)) return give_up();
    handle(message);
  };
  // A message about ranks names their assignment. A question about processes means those that are.
  if (frame.type == MessageType::heartbeat) return;
  const bool names_epoch =
      frame.type != MessageType::probe_ranks && frame.type != MessageType::begin_epoch;
  if (epoch_ != 0 && frame.epoch != epoch_ && names_epoch) return give_up();
  switch (frame.type) {
    case MessageType::launch:
      return with(Launch{}, [&](Launch& m) {
        settle_folder(m);
        m.check_first ? check_launch(m, frame.epoch) : launch(m, frame.epoch);
      });
    case MessageType::start_ranks:
      if (!checked_) return give_up();
      return launch(*std::exchange(checked_, std::nullopt), frame.epoch);
    case MessageType::kill_ranks:
      return with(KillRanks{}, [&](const KillRanks& m) { kill_ranks(m); });
    case MessageType::signal_ranks:
      return with(SignalRanks{}, [&](const SignalRanks& m) { signal_ranks(m.signal); });
    case MessageType::probe_ranks:
      return with(ProbeRanks{}, [&](const ProbeRanks& m) { probe_ranks(m); });
    case MessageType::clock_reply:
      return with(ClockReply{}, [&](const ClockReply& m) {
        timeline_.reply(m, monotonic_ns());
        move_timeline();
      });
    case MessageType::end_job:
      return end_job();
    default:
      break;
  }
  if (HorovodMirror::takes(frame.type)) {
    if (!horovod_ || horovod_->coordinator_frame(frame) != Errc::ok) give_up();
    return;
  }
  if (!workers_server_) return give_up();
  switch (frame.type) {
    case MessageType::fence_release:
      return with(FenceRelease{}, [&](const auto& m) { workers_server_->fence_release(m); });
    case MessageType::fence_failed:
      return with(FenceFailed{}, [&](const auto& m) { workers_server_->fence_failed(m); });
    case MessageType::store_ack:
      return with(StoreAck{}, [&](const auto& m) { workers_server_->store_ack(m); });
    case MessageType::store_value:
      return with(StoreValue{}, [&](const auto& m) { workers_server_->store_value(m); });
    case MessageType::survey_ranks:
      return with(SurveyRanks{}, [&](const auto& m) { workers_server_->survey(m.request); });
    case MessageType::peer_lost:
      return with(PeerLost{}, [&](const auto& m) { workers_server_->peer_lost(m); });
    case MessageType::peer_gave_up:
      return with(PeerGaveUp{}, [&](const auto& m) { workers_server_->peer_gave_up(m); });
    case MessageType::begin_epoch:
      return with(BeginEpoch{}, [&](const auto& m) { begin_epoch(m, frame.epoch); });
    case MessageType::start_slot:
      return with(StartSlot{}, [&](const auto& m) { start_again(m); });
    case MessageType::end_slot:
      return with(EndSlot{}, [&](const auto& m) { end_slot(m); });
    case MessageType::horovod_notice:
      return with(HorovodNotice{}, [&](HorovodNotice& m) { notify_horovod(std::move(m)); });
    case MessageType::meeting_wanted:
      return workers_server_->meeting_wanted();
    default:
      return give_up();
  }
}

void Agent::on_output_channel(const Frame& frame) {
  Credit credit;
  Input input;
  if (frame.type == MessageType::credit && !decode(frame.payload, credit)) pump_.credit(credit);
  if (frame.type == MessageType::input && !decode(frame.payload, input)) input_.input(input);
  if (files_) files_->take(frame);
}

// All children that have ended: workers, and whatever was left to us as sub-reaper.
void Agent::reap() {
  child_signal_.async_wait([this](const auto& ec, int) {
    if (ec) return;
    int status = 0;
    for (pid_t pid = 0; (pid = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      const auto it = workers_.find(pid);
      if (it == workers_.end()) continue;
      const std::uint32_t rank = it->second.rank;
      workers_.erase(it);
      const bool signaled = WIFSIGNALED(status);
      worker_ended(rank, static_cast<std::uint32_t>(pid),
                   {signaled, signaled ? WTERMSIG(status) : WEXITSTATUS(status)});
    }
    reap();
  });
}

void Agent::debug(const std::string& text) {
  if (bootstrap_.verbose) up(Log{LogLevel::debug, bootstrap_.host_name + ": " + text});
}

void Agent::worker_ended(std::uint32_t rank, std::uint32_t pid, const ExitStatus& status) {
  input_.remove(rank);
  dying_.erase(rank);
  const bool out_of_memory = status.signaled && status.value == SIGKILL && !ladder_.started() &&
                             oom_kill_count() > oom_kills_;
  debug("rank " + std::to_string(rank) + ": " + describe(status));
  if (again_) last_process_[rank] = static_cast<pid_t>(pid);
  // Nothing takes its place that would find what it has left behind.
  if (retiring_.erase(rank) > 0) kill_session(static_cast<pid_t>(pid));
  const RankExited message{rank,
                           pid,
                           status.signaled ? ExitKind::signaled : ExitKind::exited,
                           static_cast<std::uint32_t>(status.value),
                           ladder_.started(),
                           out_of_memory,
                           {}};
  // A rank has said before whether it failed by itself or for lack of another.
  workers_server_->hear_out(rank, [this, message, how = describe(status)] {
    if (message.kind != ExitKind::exited || message.value != 0) pump_.catch_up(message.rank);
    up(message);
    workers_server_->rank_exited(message.rank, how);
  });
}

void Agent::kill_ranks(const KillRanks& message) {
  kill_step(ladder_.start(now(), message.steps));
  arm_timer();
}

void Agent::kill_step(std::optional<int> signal) {
  if (!signal) return;
  if (*signal == SIGKILL) {
    kill_descendants();
    return;
  }
  signal_ranks(static_cast<std::uint32_t>(*signal));
  // A stopped process acts on no signal but KILL and CONT.
  if (*signal != SIGSTOP) signal_ranks(SIGCONT);
}

// To the process group: a shell that started the program would else be told alone.
void Agent::signal_ranks(std::uint32_t signal) {
  for (const auto& [pid, worker] : workers_) ::kill(-pid, static_cast<int>(signal));
}

void Agent::move_timeline() {
  if (const auto query = timeline_.query(monotonic_ns())) up(*query);
  if (!output_ || (!ending_ && output_->queued() > limits::kMaxTimelineQueue)) return;
  std::string frames = timeline_.take(monotonic_ns());
  if (!frames.empty()) output_->send_bytes(std::move(frames));
}

void Agent::arm_timer() {
  TimePoint next = lease_ ? next_heartbeat_ : TimePoint::max();
  if (holds_lease()) next = std::min(next, lease_->end());
  if (const auto deadline = ladder_.next_deadline()) next = std::min(next, *deadline);
  for (const auto& [slot, ladder] : retiring_)
    if (const auto deadline = ladder.next_deadline()) next = std::min(next, *deadline);
  if (sweeping_) next = std::min(next, now() + kSweepPause);
  if (looks_at_ranks()) next = std::min(next, next_look_);
  timer_.expires_at(next);
  timer_.async_wait([this](const auto& ec) {
    if (!ec) on_timer();
  });
}

void Agent::on_timer() {
  const auto time = now();
  kill_step(ladder_.tick(time));
  tick_retiring(time);
  if (holds_lease() && lease_->is_over(time)) return give_up();
  if (lease_ && time >= next_heartbeat_) {
    next_heartbeat_ = time + heartbeat_of(lease_length());
    up(Heartbeat{});
  }
  if (sweeping_) return finish_if_quiet();
  if (looks_at_ranks()) look_at_ranks();
  arm_timer();
}

}  // namespace hvdrun
