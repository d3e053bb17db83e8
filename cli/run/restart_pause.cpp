#include "cli/run/restart_pause.h"

#include <algorithm>
#include <signal.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "cli/output/status_text.h"
#include "cli/run/job_server.h"
#include "cli/run/signal_watch.h"
#include "cli/text/log.h"
#include "common/base/exit_code.h"
#include "common/process/signal_words.h"

namespace hvdrun {
namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;

class RestartPause {
 public:
  RestartPause(const LaunchPlan& plan, const RestartWait& wait)
      : plan_(plan),
        wait_(wait),
        end_(Clock::now() + wait.pause),
        signals_(io_, [this](SignalAction action, int signal) { on_signal(action, signal); }) {
    JobServer::Callbacks callbacks;
    callbacks.status = [this](std::uint64_t asker, const StatusQuery&) {
      server_->answer(asker, status(asker));
    };
    callbacks.hosts = [this](std::uint64_t asker, const HostsOrder&) {
      server_->answer(asker, HostsReply{exit_code::kTryAgain,
                                        "the job is about to start again; ask once it runs"});
    };
    callbacks.trouble = [](const std::string& text) { log_line(LogLevel::warn, text); };
    try {
      server_.emplace(io_, plan_.spec.job_id, std::move(callbacks));
    } catch (const boost::system::system_error& e) {
      log_line(LogLevel::warn, std::string("hvdrun status will not find this job: ") + e.what());
    }
  }

  std::optional<int> run() {
    const bool is_cut = wait_.deadline && *wait_.deadline < end_;
    asio::steady_timer timer(io_, is_cut ? *wait_.deadline : end_);
    timer.async_wait([&](const auto& ec) {
      if (ec) return;
      if (is_cut) {
        code_ = timed_out_before_restart();
      }
      io_.stop();
    });
    io_.run();
    return code_;
  }

 private:
  JobStatus status(std::uint64_t asker) const {
    JobStatus status;
    status.asker = asker;
    status.job_id = plan_.spec.job_id;
    status.state = "restarting";
    status.age_ms = static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - wait_.began).count());
    status.driver_pid = static_cast<std::uint32_t>(::getpid());
    for (const HostSlots& host : plan_.spec.hosts()) status.hosts.push_back(host.name);
    status.argv = plan_.spec.argv;
    status.size = plan_.spec.np();
    return status;
  }

  void on_signal(SignalAction action, int signal) {
    switch (action) {
      case SignalAction::status: {
        const auto left =
            std::chrono::duration_cast<std::chrono::milliseconds>(end_ - Clock::now());
        log_line(LogLevel::warn,
                 "restart " + std::to_string(wait_.restart) + " in " +
                     age_text(static_cast<std::uint64_t>(std::max<std::int64_t>(0, left.count()))));
        return;
      }
      case SignalAction::forward:
        return;  // there are no ranks
      case SignalAction::stop:
        ::raise(SIGSTOP);
        return;
      case SignalAction::end:
        code_ = ended_before_restart(signal, wait_.restart);
        io_.stop();
    }
  }

  const LaunchPlan& plan_;
  const RestartWait& wait_;
  const Clock::time_point end_;
  asio::io_context io_{1};
  SignalWatch signals_;
  std::optional<JobServer> server_;
  std::optional<int> code_;
};

}  // namespace

int ended_before_restart(int signal, std::uint32_t restart) {
  log_line(LogLevel::warn, "ended by " + signal_text(static_cast<std::uint32_t>(signal)) +
                               " before restart " + std::to_string(restart));
  return exit_code::kSignalBase + signal;
}

int timed_out_before_restart() {
  log_line(LogLevel::warn, "the job's time (--timeout) was over before it started again");
  return exit_code::kTimeout;
}

std::optional<int> wait_for_restart(const LaunchPlan& plan, const RestartWait& wait) {
  return RestartPause(plan, wait).run();
}

}  // namespace hvdrun
