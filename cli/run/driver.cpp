#include "cli/run/driver.h"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <signal.h>
#include <unistd.h>
#include <utility>

#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>

#include "cli/output/status_text.h"
#include "cli/output/viewer.h"
#include "cli/run/coordinator_watch.h"
#include "cli/run/event_log.h"
#include "cli/run/guard_words.h"
#include "cli/run/host_opener.h"
#include "cli/run/job_report.h"
#include "cli/run/opened_job.h"
#include "cli/run/signal_table.h"
#include "cli/text/last_lines.h"
#include "cli/text/log.h"
#include "cli/text/stderr_tail.h"
#include "common/base/descriptor_limit.h"
#include "common/base/exit_code.h"
#include "common/base/fault_text.h"
#include "common/net/unix_stream.h"
#include "common/process/process_tree.h"

namespace hvdrun {
namespace {

namespace asio = boost::asio;

// For guards and coordinator to go after the job has ended, or to send more output; they are killed
// then.
constexpr std::chrono::milliseconds kLeaveTimeout{5'000};
// Once all output has ended, for what carried it. A session lasts as long as anybody holds its
// stdout, a process say that a login shell has put into the background; what it was for is done.
constexpr std::chrono::milliseconds kCarrierTimeout{1'000};
// The summary comes last, after all output; but not later than this after the verdict, because a
// stuck reader of stdout may keep output back for ever. Lost hosts have so long to prove alive.
constexpr std::chrono::milliseconds kSummaryTimeout{1'000};
// For srun to have its step ended, at the very end.
constexpr std::chrono::milliseconds kLeaveStep{1'000};
// Before hvdrun stops itself, for the word to reach the ranks.
constexpr std::chrono::milliseconds kStopDelay{50};
constexpr std::chrono::milliseconds kOneSignal{100};
// The last events wait so long for the reader of a pipe when all else is over.
constexpr std::chrono::milliseconds kLastEvents{10'000};

class Driver {
 public:
  Driver(LaunchPlan plan, OpenedJob opened, std::chrono::steady_clock::time_point started,
         HeldLog& log);
  int run();

 private:
  struct Host {
    std::uint32_t index = 0;
    OpenHost open;
    std::optional<asio::posix::stream_descriptor> exit;  // on the guard's pidfd
    std::unique_ptr<GuardWords> words;
    bool gone = false;
  };

  HostOpener::Callbacks opener_callbacks();
  void watch_hosts();
  void watch_guard(Host& host, const Process& guard);
  void watch_exit(Host& host, const Process& guard);
  void on_guard_ended(Host& host, const ExitStatus& status);
  void end_hosts();
  void watch_signals();
  void on_signal(int signal);
  void on_coordinator(const Frame& frame);
  void on_output(const Output& output);
  void on_status(const JobStatus& status);
  void on_stall(const StallWarning& warning);
  void watch_event_log();
  void on_verdict(JobEnded verdict);
  void give_up(Host& host);
  void wait_for_leavers();
  void name_cause(JobEnded& verdict) const;
  void show_summary();
  void stop_self();
  void on_output_broken(int error);
  void fail(int exit_code, const std::string& text);
  void end_now();
  void kill_all();
  void finish_if_done();

  template <class M>
  void tell_coordinator(const M& message) {
    if (coordinator_) coordinator_->send(message);
  }

  LaunchPlan plan_;
  OpenedJob opened_;
  std::chrono::steady_clock::time_point started_;
  asio::io_context io_{1};
  asio::signal_set signals_{io_};
  asio::steady_timer leave_timer_{io_};
  asio::steady_timer summary_timer_{io_};
  asio::steady_timer stop_timer_{io_};
  EventLog events_;
  StderrTail stderr_tail_;
  LastLines last_lines_;
  Viewer viewer_;
  HostOpener opener_;  // of other machines
  std::shared_ptr<FrameChannel> coordinator_;
  CoordinatorWatch coordinator_watch_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::optional<int> exit_code_;     // the verdict is in
  std::optional<JobEnded> verdict_;  // and not yet shown
  bool output_lost_ = false;         // something of it could not be written
  bool said_joined_ = false;
  bool interrupted_ = false;
  std::chrono::steady_clock::time_point interrupted_at_;
  std::chrono::milliseconds leave_within_ = std::chrono::milliseconds::max();
};

Driver::Driver(LaunchPlan plan, OpenedJob opened, std::chrono::steady_clock::time_point started,
               HeldLog& log)
    : plan_(std::move(plan)),
      opened_(std::move(opened)),
      started_(started),
      viewer_(io_, plan_.spec.job_id, plan_.output, plan_.spec.ranks, std::move(opened_.files),
              [this](int error) { on_output_broken(error); }),
      opener_(io_, plan_.ssh, plan_.spec.start_timeout, opened_.relay_ports,
              opened_.descriptor_limit, opener_callbacks()),
      coordinator_watch_(io_, opened_.coordinator.pid, plan_.spec.lease,
                         {[this](const std::string& text) { viewer_.say(text); },
                          [this](const std::string& text) {
                            fail(exit_code::kInternal, text + "; the job was ended");
                          }}) {
  log.pass_to([this](const std::string& text) { viewer_.say(text); });
  for (const HandledSignal& row : kSignalTable) {
    struct sigaction now {};
    if (::sigaction(row.signal, nullptr, &now) == 0 && now.sa_handler != SIG_IGN)
      signals_.add(row.signal);
  }
  watch_signals();
  events_ = std::move(opened_.events);
  events_.start(io_, [this] {
    watch_event_log();
    finish_if_done();
  });
  std::vector<std::string> names;
  for (const HostSlots& host : plan_.spec.hosts()) names.push_back(host.name);
  events_.job_started(plan_.spec.np(), names, plan_.spec.argv);
  viewer_.on_output = [this](const Output& output) { on_output(output); };
  opened_.timeline->set_job(plan_.spec.ranks,
                            [this](const std::string& text) { viewer_.say(text); });
  viewer_.on_timeline_batch = [this](const auto& batch) { opened_.timeline->batch(batch); };
  viewer_.on_timeline_control = [this](const auto& said) { opened_.timeline->control(said); };
  viewer_.on_all_closed = [this] { finish_if_done(); };
  coordinator_ =
      std::make_shared<FrameChannel>(make_unix_stream(io_, std::move(opened_.coordinator_end)));
  coordinator_->start([this](const Frame& frame) { on_coordinator(frame); },
                      [this](std::error_code) {
                        coordinator_.reset();
                        if (!exit_code_)
                          fail(exit_code::kInternal, "the coordinator is gone; the job was ended");
                      });
  Hello hello;
  hello.role = Role::driver;
  hello.job_id = plan_.spec.job_id;
  coordinator_->send(hello);
  watch_hosts();
}

int Driver::run() {
  io_.run();
  if (verdict_) events_.job_ended(*verdict_);  // the user did not wait for the summary
  opened_.timeline->finish();
  end_hosts();
  opener_.leave(kLeaveStep);
  // What is still there after all this time has been asked often enough.
  kill_all();
  return exit_code_.value_or(exit_code::kInternal);
}

HostOpener::Callbacks Driver::opener_callbacks() {
  HostOpener::Callbacks callbacks;
  callbacks.say = [this](const std::string& text) { viewer_.say(text); };
  callbacks.is_connected = [this](std::uint32_t index) { return viewer_.is_connected(index); };
  callbacks.gone = [this](std::uint32_t index) {
    viewer_.forget(index);
    for (const auto& host : hosts_)
      if (host->index == index) host->gone = true;
  };
  callbacks.relayed = [this](std::uint32_t index) {
    std::string tried;
    for (const std::string& address : opened_.offered)
      tried += (tried.empty() ? "" : ", ") + address;
    viewer_.say(plan_.spec.hosts()[index].name + " cannot reach this machine (tried " + tried +
                "): its control and output go through " + carrier_of(plan_.ssh));
  };
  callbacks.ended = [this](std::uint32_t index, const std::optional<std::string>& why) {
    for (const auto& host : hosts_)
      if (host->index == index) host->gone = true;
    viewer_.forget_unless_connected(index);
    if (why) tell_coordinator(HostFailed{index, *why});
    finish_if_done();
  };
  callbacks.failed = [this](const std::vector<HostOpener::Refusal>& refusals) {
    if (exit_code_) return;
    for (const HostOpener::Refusal& refusal : refusals)
      viewer_.say(refusal.lines, Viewer::Kind::verdict);
    JobEnded verdict;
    verdict.cause = EndCause::host_lost;
    verdict.exit_code = exit_code::kHost;
    verdict.host = refusals.front().host;
    verdict.text = refusals.front().why;
    events_.job_ended(verdict);
    fail(exit_code::kHost, "nothing was started");
  };
  return callbacks;
}

void Driver::watch_hosts() {
  if (opened_.viewer_listener) viewer_.listen(std::move(opened_.viewer_listener), opened_.secret);
  for (OpenedJob::Host& opened : opened_.hosts) {
    auto host = std::make_unique<Host>();
    host->index = opened.index;
    host->open = std::move(opened.open);
    viewer_.expect(host->index);
    if (opened.viewer_end) viewer_.attach(host->index, std::move(opened.viewer_end));
    if (opened.remote) {
      opener_.add(host->index, plan_.spec.hosts()[host->index].name, plan_.logins[host->index],
                  opened_.agent_image, std::move(opened.job));
    } else if (opened.fault) {
      host->gone = true;
      viewer_.forget(host->index);
      tell_coordinator(HostFailed{host->index, "no agent: " + fault_text(opened.fault)});
    } else {
      watch_guard(*host, host->open.guard);
    }
    hosts_.push_back(std::move(host));
  }
  opener_.open();
}

void Driver::watch_guard(Host& host, const Process& guard) {
  host.words = std::make_unique<GuardWords>(
      io_, std::move(host.open.words), [this](const std::string& line) { viewer_.pass_on(line); });
  UniqueFd pidfd(::dup(guard.pidfd.get()));
  if (!pidfd) throw std::system_error(errno, std::system_category(), "dup");
  host.exit.emplace(io_, pidfd.release());
  watch_exit(host, guard);
}

void Driver::watch_exit(Host& host, const Process& guard) {
  host.exit->async_wait(host.exit->wait_read, [this, &host, &guard](const auto& ec) {
    if (ec) return;
    if (!is_over(guard)) return watch_exit(host, guard);
    ExitStatus status;
    try_reap(guard, status);
    host.gone = true;
    host.exit.reset();
    host.open.lease.reset();  // the guard is still there when it was its keeper that ended
    host.words->drain();
    viewer_.forget_unless_connected(host.index);
    on_guard_ended(host, status);
    finish_if_done();
  });
}

void Driver::on_guard_ended(Host& host, const ExitStatus& status) {
  if (status.signaled || status.value != 0) {
    tell_coordinator(HostFailed{
        host.index, status.signaled
                        ? "its guard was killed by signal " + std::to_string(status.value)
                        : "its guard ended with code " + std::to_string(status.value)});
  }
}

void Driver::end_hosts() {
  for (const auto& host : hosts_) host->open.lease.reset();
  opener_.end_all();
}

void Driver::watch_signals() {
  signals_.async_wait([this](const auto& ec, int signal) {
    if (ec) return;
    on_signal(signal);
    watch_signals();
  });
}

void Driver::on_signal(int signal) {
  const auto row = std::find_if(kSignalTable.begin(), kSignalTable.end(),
                                [signal](const HandledSignal& r) { return r.signal == signal; });
  const SignalAction action = row == kSignalTable.end() ? SignalAction::end : row->action;
  switch (action) {
    case SignalAction::status:
      return tell_coordinator(StatusQuery{true});
    case SignalAction::forward:
      return tell_coordinator(SignalRanks{static_cast<std::uint32_t>(signal)});
    case SignalAction::stop:
      return stop_self();
    case SignalAction::end:
      break;
  }
  // Once: the kill ladder. Twice: at once. Two within a moment are one: `timeout` signals its child
  // and then its group, a terminal's hang-up comes from shell and kernel.
  const auto now = std::chrono::steady_clock::now();
  if (interrupted_ && now - interrupted_at_ < kOneSignal) return;
  interrupted_at_ = now;
  const bool first = viewer_.hurry();
  events_.hurry(Console::kPatience);
  if (exit_code_) return first ? void() : end_now();
  if (std::exchange(interrupted_, true)) {
    exit_code_ = exit_code::kSignalBase + signal;
    // Whoever interrupts twice does not want to wait for a reader.
    viewer_.end_with("signal " + std::to_string(signal) + " again: killing everything at once");
    return end_now();
  }
  log_line(LogLevel::info, "signal " + std::to_string(signal) + ": ending the job");
  tell_coordinator(AbortJob{static_cast<std::uint32_t>(signal)});
}

// A reader that has gone away ends the job as it ends any program of a pipe. Where output cannot be
// written for another reason (a full disk) the viewer says so and the job goes on: days of training
// are worth more than its log. The exit code tells it in the end.
void Driver::on_output_broken(int error) {
  if (error == EPIPE) {
    // After a signal it is no second one: Ctrl-C ends the reader of a pipe too.
    if (!exit_code_ && !interrupted_) on_signal(SIGPIPE);
    if (exit_code_ == exit_code::kOk) exit_code_ = exit_code::kSignalBase + SIGPIPE;
    return;
  }
  output_lost_ = true;
  if (exit_code_ == exit_code::kOk) exit_code_ = exit_code::kOutput;
}

// Ctrl-Z: the ranks have sessions of their own, so the terminal does not stop them.
void Driver::stop_self() {
  tell_coordinator(SignalRanks{SIGSTOP});
  stop_timer_.expires_after(kStopDelay);
  stop_timer_.async_wait([](const auto& ec) {
    if (!ec) ::raise(SIGSTOP);
  });
}

void Driver::on_output(const Output& output) {
  if (output.stream == OutputStream::err) stderr_tail_.add(output.rank, output.bytes);
  last_lines_.add(output.rank, output.bytes);
}

void Driver::on_status(const JobStatus& status) {
  const auto last_line = [this](std::uint32_t rank) { return last_lines_.of(rank); };
  viewer_.say(describe_status(status, last_line));
}

void Driver::on_stall(const StallWarning& warning) {
  viewer_.say(warning.lines);
  events_.stall(warning, plan_.spec.hosts());
  watch_event_log();
}

void Driver::watch_event_log() {
  if (const std::string why = events_.take_fault(); !why.empty())
    viewer_.say("--events " + plan_.events_file + ": " + why + "; no more events are written");
}

void Driver::on_coordinator(const Frame& frame) {
  switch (frame.type) {
    case MessageType::welcome:
      return;
    case MessageType::log: {
      Log message;
      if (decode(frame.payload, message)) break;
      log_line(message.level, message.text);
      return;
    }
    case MessageType::job_progress: {
      JobProgress message;
      if (decode(frame.payload, message)) break;
      const auto passed = std::chrono::duration_cast<std::chrono::milliseconds>(
          std::chrono::steady_clock::now() - started_);
      log_line(LogLevel::debug, std::to_string(message.hosts_ready) + " hosts ready, " +
                                    std::to_string(message.started) + " of " +
                                    std::to_string(message.size) + " ranks started, " +
                                    std::to_string(message.joined) + " joined, after " +
                                    std::to_string(passed.count()) + " ms");
      if (message.joined == message.size && !std::exchange(said_joined_, true) &&
          viewer_.stderr_is_terminal())
        viewer_.say(std::to_string(message.joined) + "/" + std::to_string(message.size) +
                    " ranks joined in " + std::to_string(passed.count()) + " ms");
      return;
    }
    case MessageType::job_status: {
      JobStatus message;
      if (decode(frame.payload, message)) break;
      return on_status(message);
    }
    case MessageType::rank_event: {
      RankEvent message;
      if (decode(frame.payload, message) || message.host >= plan_.spec.hosts().size()) break;
      events_.rank(message, plan_.spec.hosts()[message.host].name);
      return watch_event_log();
    }
    case MessageType::stall_warning: {
      StallWarning message;
      if (decode(frame.payload, message)) break;
      return on_stall(message);
    }
    case MessageType::job_ended: {
      JobEnded message;
      if (decode(frame.payload, message)) break;
      return on_verdict(std::move(message));
    }
    default:
      break;
  }
  fail(exit_code::kInternal, "the coordinator sent what hvdrun does not understand");
}

void Driver::on_verdict(JobEnded verdict) {
  if (exit_code_) return;
  if (output_lost_ && verdict.exit_code == exit_code::kOk) verdict.exit_code = exit_code::kOutput;
  exit_code_ = static_cast<int>(verdict.exit_code);
  if (verdict.cause == EndCause::start_timeout)
    viewer_.say(opener_.not_opened(), Viewer::Kind::verdict);
  opener_.end_unconnected();
  if (verdict.cause == EndCause::success) {
    events_.job_ended(verdict);
  } else {
    verdict_ = verdict;
    const auto lost = lost_hosts(verdict, plan_.spec.ranks);
    summary_timer_.expires_after(kSummaryTimeout);
    summary_timer_.async_wait([this, lost](const auto& ec) {
      if (ec) return;
      show_summary();
      for (const auto& host : hosts_)
        if (lost.contains(host->index)) give_up(*host);
      finish_if_done();
    });
  }
  finish_if_done();
}

// A host without power sends no end: neither its ssh session nor its output would ever come to one.
void Driver::give_up(Host& host) {
  if (plan_.remote[host.index]) {
    opener_.give_up(host.index);
  } else {
    host.open.lease.reset();
  }
  host.gone = true;
  viewer_.give_up(host.index);
}

// That an agent is gone is known at once, and why only when what carried its host has said so.
void Driver::name_cause(JobEnded& verdict) const {
  if (verdict.cause != EndCause::host_lost) return;
  for (const auto& host : hosts_) {
    if (plan_.spec.hosts()[host->index].name != verdict.host) continue;
    const std::string cause = opener_.cause(host->index);
    if (verdict.text.find(cause) == cause.npos) verdict.text += "; " + cause;
  }
}

void Driver::show_summary() {
  auto verdict = std::exchange(verdict_, std::nullopt);
  if (!verdict) return;
  name_cause(*verdict);
  events_.job_ended(*verdict);
  const bool names_rank =
      verdict->cause == EndCause::rank_failed || verdict->cause == EndCause::early_exit;
  const auto last_lines =
      names_rank ? stderr_tail_.lines(verdict->rank) : std::vector<std::string>();
  viewer_.say(describe_failure(*verdict, last_lines), Viewer::Kind::verdict);
}

void Driver::fail(int exit_code, const std::string& text) {
  if (exit_code_) return;
  exit_code_ = exit_code;
  viewer_.say(text, Viewer::Kind::verdict);
  end_hosts();
  finish_if_done();
}

void Driver::end_now() {
  end_hosts();
  io_.stop();
}

void Driver::kill_all() {
  if (opened_.reaps_all) return void(kill_descendants_and_wait());
  std::vector<pid_t> own = opener_.clients();
  own.push_back(opened_.coordinator.pid);
  for (const auto& host : hosts_) own.push_back(host->open.guard.pid);
  kill_children_and_wait(std::move(own));
}

// All output is shown and all guards are gone, or they had time enough.
void Driver::finish_if_done() {
  if (!exit_code_) return;
  const bool guards_gone =
      std::all_of(hosts_.begin(), hosts_.end(), [](const auto& host) { return host->gone; });
  if (guards_gone && viewer_.all_shown()) {
    opened_.timeline->finish();
    if (!verdict_ && viewer_.all_shown()) {
      if (events_.is_written()) return io_.stop();
      return events_.hurry(kLastEvents);
    }
    show_summary();  // which calls back once it is written, as does what the timeline says
    return;
  }
  // srun takes its time to end a step, and nobody but the job is in that.
  const bool carriers_only = viewer_.all_shown() && plan_.ssh.transport != SshTransport::srun &&
                             std::all_of(hosts_.begin(), hosts_.end(), [this](const auto& host) {
                               return host->gone || plan_.remote[host->index];
                             });
  const auto within = carriers_only ? kCarrierTimeout : kLeaveTimeout;
  if (within < std::exchange(leave_within_, std::min(leave_within_, within))) wait_for_leavers();
}

// Who has come to an end, or still sends output, may take its time. Output that nobody reads keeps
// an agent alive: the user waits for it, or interrupts.
void Driver::wait_for_leavers() {
  leave_timer_.expires_after(leave_within_);
  leave_timer_.async_wait([this, heard = viewer_.heard()](const auto& ec) {
    if (ec) return;
    if (viewer_.heard() != heard || viewer_.is_held_back()) return wait_for_leavers();
    for (const auto& host : hosts_) {
      if (viewer_.is_connected(host->index)) {
        viewer_.say("host " + plan_.spec.hosts()[host->index].name +
                    " does not answer; the end of its output may be missing");
        on_output_broken(EHOSTUNREACH);
      }
      give_up(*host);
    }
    finish_if_done();
  });
}

}  // namespace

int run_job(LaunchPlan plan) {
  const auto started = std::chrono::steady_clock::now();
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);  // a file over the limit is an error of its write
  HeldLog log;
  OpenedJob opened = open_job(plan);
  opened.descriptor_limit = raise_descriptor_limit();  // after the forks: each raises its own
  Driver driver(std::move(plan), std::move(opened), started, log);
  return driver.run();
}

}  // namespace hvdrun
