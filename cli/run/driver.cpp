#include "cli/run/driver.h"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <signal.h>
#include <unistd.h>
#include <utility>

#include <boost/asio/steady_timer.hpp>

#include "cli/output/viewer.h"
#include "cli/run/coordinator_messages.h"
#include "cli/run/coordinator_watch.h"
#include "cli/run/host_opener.h"
#include "cli/run/job_hosts.h"
#include "cli/run/job_phase.h"
#include "cli/run/job_report.h"
#include "cli/run/job_reporter.h"
#include "cli/run/job_server.h"
#include "cli/run/local_guard.h"
#include "cli/run/opened_job.h"
#include "cli/run/signal_watch.h"
#include "cli/text/log.h"
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
// The last events wait so long for the reader of a pipe when all else is over.
constexpr std::chrono::milliseconds kLastEvents{10'000};

class Driver {
 public:
  Driver(LaunchPlan plan, OpenedJob opened, std::chrono::steady_clock::time_point started,
         std::function<std::string(const JobEnded&)> on_failure, HeldLog& log);
  ~Driver() { log_.pass_to(nullptr); }
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;
  AttemptEnd run();

 private:
  struct Host {
    std::uint32_t index = 0;
    std::unique_ptr<LocalGuard> guard;  // none: the opener has it
    bool gone = false;
  };

  HostOpener::Callbacks opener_callbacks();
  void watch_hosts();
  void watch_guard(Host& host, OpenHost open);
  void end_hosts();
  void on_signal(SignalAction action, int signal);
  void on_end_signal(int signal);
  void listen_to_coordinator();
  CoordinatorMessages coordinator_messages();
  void not_understood();
  void reopen(const ReopenHost& message);
  Host& add_host(std::uint32_t index);
  void add_slots(const SlotsAdded& message);
  void leave(const LeaveHost& message);
  void listen_to_commands();
  void on_verdict(JobEnded verdict);
  void give_up(Host& host);
  void wait_for_leavers();
  void name_cause(JobEnded& verdict) const;
  void show_summary();
  void stop_self();
  void on_output_broken(int error);
  void fail(int exit_code, const std::string& text);
  void end_now();
  std::vector<pid_t> own_children();
  void finish_if_done();

  template <class M>
  void tell_coordinator(const M& message) {
    if (coordinator_) coordinator_->send(message);
  }

  LaunchPlan plan_;
  OpenedJob opened_;
  std::chrono::steady_clock::time_point started_;
  asio::io_context io_{1};
  asio::steady_timer leave_timer_{io_};
  asio::steady_timer summary_timer_{io_};
  asio::steady_timer stop_timer_{io_};
  Viewer viewer_;
  JobReporter reporter_;
  HostOpener opener_;  // of other machines
  std::shared_ptr<FrameChannel> coordinator_;
  CoordinatorWatch coordinator_watch_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::optional<JobHosts> job_hosts_;  // where hosts come and go
  std::optional<JobServer> job_server_;
  JobPhase job_;
  SignalWatch signals_;
  std::chrono::milliseconds leave_within_ = std::chrono::milliseconds::max();
  std::function<std::string(const JobEnded&)> on_failure_;
  HeldLog& log_;
};

Driver::Driver(LaunchPlan plan, OpenedJob opened, std::chrono::steady_clock::time_point started,
               std::function<std::string(const JobEnded&)> on_failure, HeldLog& log)
    : plan_(std::move(plan)),
      opened_(std::move(opened)),
      started_(started),
      viewer_(io_, plan_.spec.job_id, plan_.output, plan_.spec.ranks, std::move(opened_.files),
              [this](int error) { on_output_broken(error); }),
      reporter_(io_, viewer_, plan_.spec.hosts(), std::move(opened_.events), plan_.events_file,
                [this] { finish_if_done(); }),
      opener_(io_, plan_.ssh, plan_.spec.start_timeout, opened_.relay_ports,
              opened_.descriptor_limit, opener_callbacks()),
      coordinator_watch_(io_, opened_.coordinator.pid, plan_.spec.lease,
                         {[this](const std::string& text) { viewer_.say(text); },
                          [this](const std::string& text) {
                            fail(exit_code::kInternal, text + "; the job was ended");
                          }}),
      signals_(io_, [this](SignalAction action, int signal) { on_signal(action, signal); }),
      on_failure_(std::move(on_failure)),
      log_(log) {
  log_.pass_to([this](const std::string& text) { viewer_.say(text); });
  reporter_.job_started(plan_.spec.np(), plan_.spec.argv);
  if (opened_.synced) viewer_.sync(std::move(opened_.synced));
  viewer_.on_output = [this](const Output& output) { reporter_.on_output(output); };
  opened_.timeline->set_job(plan_.spec.ranks,
                            [this](const std::string& text) { viewer_.say(text); });
  viewer_.on_timeline_batch = [this](const auto& batch) { opened_.timeline->batch(batch); };
  viewer_.on_timeline_control = [this](const auto& said) { opened_.timeline->control(said); };
  viewer_.on_all_closed = [this] { finish_if_done(); };
  listen_to_coordinator();
  watch_hosts();
  listen_to_commands();
  if (plan_.spec.max_np == 0) return;
  viewer_.may_grow();
  job_hosts_.emplace(io_, plan_,
                     JobHosts::Callbacks{[this](const std::string& text) { viewer_.say(text); },
                                         [this](const HostsListed& message) {
                                           viewer_.grow(plan_.spec.ranks);
                                           tell_coordinator(message);
                                         }});
}

AttemptEnd Driver::run() {
  io_.run();
  // The user did not wait for the summary.
  if (const auto verdict = job_.take_summary()) reporter_.job_ended(*verdict);
  opened_.timeline->finish();
  end_hosts();
  opener_.leave(kLeaveStep);
  // A process that is still there after all this time has been asked often enough.
  const std::vector<pid_t> children = own_children();
  const bool all_gone =
      opened_.reaps_all ? kill_descendants_and_wait() : kill_children_and_wait(children);
  // A signal may have come meanwhile.
  io_.restart();
  io_.poll();
  return {job_.is_over() ? job_.exit_code() : exit_code::kInternal,
          job_.is_interrupted(),
          job_.signal(),
          job_.is_output_lost(),
          all_gone,
          children};
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
    // Where an agent was there, its own end is told.
    const bool is_news = why || (opener_.opening(index) > 0 && !viewer_.is_connected(index));
    if (is_news)
      tell_coordinator(
          HostFailed{index, why.value_or("its guard has ended"), opener_.opening(index)});
    finish_if_done();
  };
  callbacks.failed = [this](const std::vector<HostOpener::Refusal>& refusals) {
    if (job_.is_over()) return;
    for (const HostOpener::Refusal& refusal : refusals)
      viewer_.say(refusal.lines, Viewer::Kind::verdict);
    JobEnded verdict;
    verdict.cause = EndCause::host_lost;
    verdict.exit_code = exit_code::kHost;
    verdict.host = refusals.front().host;
    verdict.text = refusals.front().why;
    reporter_.job_ended(verdict);
    // At the first start hosts may be written wrongly; later they were there before.
    const std::string next = plan_.restarts.count > 0 ? on_failure_(verdict) : "";
    fail(exit_code::kHost, "nothing was started" + (next.empty() ? "" : "; " + next));
  };
  return callbacks;
}

void Driver::watch_hosts() {
  if (opened_.viewer_listener) viewer_.listen(std::move(opened_.viewer_listener), opened_.secret);
  for (OpenedJob::Host& opened : opened_.hosts) {
    auto host = std::make_unique<Host>();
    host->index = opened.index;
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
      watch_guard(*host, std::move(opened.open));
    }
    hosts_.push_back(std::move(host));
  }
  opener_.open();
}

void Driver::watch_guard(Host& host, OpenHost open) {
  LocalGuard::Callbacks callbacks;
  callbacks.line = [this](const std::string& line) { viewer_.pass_on(line); };
  callbacks.ended = [this, &host](const std::string& why) {
    host.gone = true;
    viewer_.forget_unless_connected(host.index);
    if (!why.empty()) tell_coordinator(HostFailed{host.index, why});
    finish_if_done();
  };
  host.guard = std::make_unique<LocalGuard>(io_, std::move(open), std::move(callbacks));
}

void Driver::end_hosts() {
  for (const auto& host : hosts_)
    if (host->guard) host->guard->close_lease();
  opener_.end_all();
}

void Driver::on_signal(SignalAction action, int signal) {
  switch (action) {
    case SignalAction::status:
      return tell_coordinator(StatusQuery{true});
    case SignalAction::forward:
      return tell_coordinator(SignalRanks{static_cast<std::uint32_t>(signal)});
    case SignalAction::stop:
      return stop_self();
    case SignalAction::end:
      return on_end_signal(signal);
  }
}

void Driver::on_end_signal(int signal) {
  const auto request = job_.on_signal(signal, std::chrono::steady_clock::now());
  if (request == JobPhase::Request::nothing) return;
  viewer_.hurry();
  reporter_.hurry(FdWriter::kPatience);
  switch (request) {
    case JobPhase::Request::end_job:
      log_line(LogLevel::info, "signal " + std::to_string(signal) + ": ending the job");
      return tell_coordinator(AbortJob{static_cast<std::uint32_t>(signal)});
    case JobPhase::Request::kill_job:
      // Whoever interrupts twice does not want to wait for a reader.
      viewer_.end_with("signal " + std::to_string(signal) + " again: killing everything at once");
      return end_now();
    case JobPhase::Request::leave:
      return end_now();
    case JobPhase::Request::hurry:
    case JobPhase::Request::nothing:
      return;
  }
}

// A reader that has gone away ends the job as it ends any program of a pipe. Where output cannot be
// written for another reason (a full disk) the viewer says so and the job goes on: days of training
// are worth more than its log. The exit code tells it in the end.
void Driver::on_output_broken(int error) {
  if (error != EPIPE) return job_.on_output_lost();
  // After a signal it is no second one: Ctrl-C ends the reader of a pipe too.
  if (job_.phase() == JobPhase::Phase::running) on_end_signal(SIGPIPE);
  job_.on_reader_gone();
}

// Ctrl-Z: the ranks have sessions of their own, so the terminal does not stop them.
void Driver::stop_self() {
  tell_coordinator(SignalRanks{SIGSTOP});
  stop_timer_.expires_after(kStopDelay);
  stop_timer_.async_wait([](const auto& ec) {
    if (!ec) ::raise(SIGSTOP);
  });
}

void Driver::listen_to_coordinator() {
  coordinator_ =
      std::make_shared<FrameChannel>(make_unix_stream(io_, std::move(opened_.coordinator_end)));
  coordinator_->start(
      [this, messages = coordinator_messages()](const Frame& frame) {
        if (!messages.pass_on(frame)) not_understood();
      },
      [this](std::error_code) {
        coordinator_.reset();
        fail(exit_code::kInternal, "the coordinator is gone; the job was ended");
      });
  Hello hello;
  hello.role = Role::driver;
  hello.job_id = plan_.spec.job_id;
  coordinator_->send(hello);
}

void Driver::not_understood() {
  fail(exit_code::kInternal, "the coordinator sent what hvdrun does not understand");
}

CoordinatorMessages Driver::coordinator_messages() {
  CoordinatorMessages messages;
  messages.log = [](const Log& message) { log_line(message.level, message.text); };
  messages.progress = [this](const JobProgress& message) {
    reporter_.on_progress(message, std::chrono::duration_cast<std::chrono::milliseconds>(
                                       std::chrono::steady_clock::now() - started_));
  };
  messages.status = [this](const JobStatus& message) {
    if (message.asker == 0) return reporter_.on_status(message);
    if (job_server_) job_server_->answer(message.asker, message);
  };
  messages.rank = [this](const RankEvent& message) {
    if (message.host >= plan_.spec.hosts().size()) return not_understood();
    reporter_.on_rank(message);
  };
  messages.stall = [this](const StallWarning& message) { reporter_.on_stall(message); };
  messages.epoch = [this](std::uint32_t number, const EpochBegun& message) {
    viewer_.begin_epoch(message.members);
    reporter_.on_epoch(number, message);
  };
  messages.reopen = [this](const ReopenHost& message) { reopen(message); };
  messages.slots_added = [this](const SlotsAdded& message) { add_slots(message); };
  messages.leave = [this](const LeaveHost& message) { leave(message); };
  messages.ended = [this](JobEnded message) { on_verdict(std::move(message)); };
  return messages;
}

void Driver::reopen(const ReopenHost& message) {
  if (message.host_index >= plan_.spec.hosts().size()) return not_understood();
  const auto found = std::find_if(hosts_.begin(), hosts_.end(), [&](const auto& host) {
    return host->index == message.host_index;
  });
  const bool is_new = found == hosts_.end();
  if (is_new ? plan_.spec.max_np == 0 : (*found)->guard != nullptr) return not_understood();
  if (job_.is_over()) return;
  Host& host = is_new ? add_host(message.host_index) : **found;
  host.gone = false;
  viewer_.expect_again(message.host_index);
  opener_.reopen(message.host_index, message.opening, message.at_once);
}

Driver::Host& Driver::add_host(std::uint32_t index) {
  opener_.add_later(index, plan_.spec.hosts()[index].name, plan_.logins[index],
                    !plan_.remote[index], opened_.agent_image,
                    job_of_later_host(plan_, opened_, index));
  hosts_.push_back(std::make_unique<Host>());
  hosts_.back()->index = index;
  return *hosts_.back();
}

void Driver::add_slots(const SlotsAdded& message) {
  for (const RankPlace& slot : message.slots)
    if (slot.host >= plan_.spec.hosts().size() ||
        plan_.spec.ranks.add_slot(slot.host).rank != slot.rank)
      return not_understood();
  viewer_.grow(plan_.spec.ranks);
  opened_.timeline->grow(plan_.spec.ranks);
}

void Driver::leave(const LeaveHost& message) {
  for (const auto& host : hosts_) {
    if (host->index != message.host_index || host->guard) continue;
    host->gone = true;
    viewer_.forget_unless_connected(host->index);
    opener_.leave_alone(host->index);
  }
}

void Driver::listen_to_commands() {
  JobServer::Callbacks callbacks;
  callbacks.status = [this](std::uint64_t asker, const StatusQuery& query) {
    tell_coordinator(StatusQuery{query.probe, asker});
  };
  callbacks.hosts = [this](std::uint64_t asker, const HostsOrder& order) {
    const HostsReply fixed{exit_code::kUsage,
                           "the hosts of this job are fixed; --max-np N lets them change"};
    const HostsReply late{exit_code::kUsage, "the job is ending"};
    job_server_->answer(asker, job_.is_over() ? late
                               : job_hosts_   ? job_hosts_->order(order)
                                              : fixed);
  };
  callbacks.trouble = [](const std::string& text) { log_line(LogLevel::warn, text); };
  try {
    job_server_.emplace(io_, plan_.spec.job_id, std::move(callbacks));
  } catch (const boost::system::system_error& e) {
    log_line(LogLevel::warn, std::string("hvdrun status will not find this job: ") + e.what());
  }
}

void Driver::on_verdict(JobEnded verdict) {
  if (!job_.on_verdict(verdict)) return;
  if (job_hosts_) job_hosts_->stop();
  if (verdict.cause == EndCause::start_timeout)
    viewer_.say(opener_.not_opened(), Viewer::Kind::verdict);
  opener_.end_unconnected();
  if (verdict.cause == EndCause::success) {
    reporter_.job_ended(verdict);
  } else {
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
  if (host.guard) {
    host.guard->close_lease();
  } else if (opener_.has(host.index)) {
    opener_.give_up(host.index);
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
  auto verdict = job_.take_summary();
  if (!verdict) return;
  name_cause(*verdict);
  reporter_.show_summary(*verdict);
  if (const std::string next = on_failure_(*verdict); !next.empty())
    viewer_.say(next, Viewer::Kind::verdict);
}

void Driver::fail(int exit_code, const std::string& text) {
  if (!job_.on_fault(exit_code)) return;
  if (job_hosts_) job_hosts_->stop();
  viewer_.say(text, Viewer::Kind::verdict);
  end_hosts();
  finish_if_done();
}

void Driver::end_now() {
  end_hosts();
  io_.stop();
}

// None where all that is below this process is the job's.
std::vector<pid_t> Driver::own_children() {
  if (opened_.reaps_all) return {};
  std::vector<pid_t> own = opener_.clients();
  own.push_back(opened_.coordinator.pid);
  if (const auto reader = job_hosts_ ? job_hosts_->reader() : std::nullopt) own.push_back(*reader);
  for (const auto& host : hosts_)
    if (host->guard) own.push_back(host->guard->pid());
  return own;
}

// All output is shown and all guards are gone, or they had time enough.
void Driver::finish_if_done() {
  if (!job_.is_over()) return;
  const bool guards_gone =
      std::all_of(hosts_.begin(), hosts_.end(), [](const auto& host) { return host->gone; });
  if (guards_gone && viewer_.all_shown()) {
    opened_.timeline->finish();
    if (job_.phase() == JobPhase::Phase::leaving && viewer_.all_shown()) {
      if (reporter_.is_written()) return io_.stop();
      return reporter_.hurry(kLastEvents);
    }
    show_summary();  // which calls back once it is written, as does what the timeline says
    return;
  }
  // srun takes its time to end a step, and nobody but the job is in that.
  const bool carriers_only = viewer_.all_shown() && plan_.ssh.carrier != HostCarrier::srun &&
                             std::all_of(hosts_.begin(), hosts_.end(), [this](const auto& host) {
                               return host->gone || opener_.has(host->index);
                             });
  const auto within = carriers_only ? kCarrierTimeout : kLeaveTimeout;
  if (within < std::exchange(leave_within_, std::min(leave_within_, within))) wait_for_leavers();
}

// A host that has come to an end, or still sends output, may take its time. Output that nobody
// reads keeps an agent alive: the user waits for it, or interrupts.
void Driver::wait_for_leavers() {
  leave_timer_.expires_after(leave_within_);
  leave_timer_.async_wait([this, heard = viewer_.heard()](const auto& ec) {
    if (ec) return;
    if (viewer_.heard() != heard || viewer_.is_held_back()) return wait_for_leavers();
    for (const auto& host : hosts_) {
      if (viewer_.is_connected(host->index)) {
        viewer_.say("host " + plan_.spec.hosts()[host->index].name +
                    " does not answer; the end of its output may be missing");
        // An elastic job has gone on without the host, and without its ranks' last words.
        if (plan_.spec.min_np == 0) on_output_broken(EHOSTUNREACH);
      }
      give_up(*host);
    }
    finish_if_done();
  });
}

}  // namespace

AttemptEnd run_attempt(LaunchPlan plan,
                       const std::function<std::string(const JobEnded&)>& on_failure,
                       HeldLog& log) {
  const auto started = std::chrono::steady_clock::now();
  OpenedJob opened = open_job(plan);
  opened.descriptor_limit = raise_descriptor_limit();  // after the forks: each raises its own
  return Driver(std::move(plan), std::move(opened), started, on_failure, log).run();
}

}  // namespace hvdrun
