#include "cli/run/job_reporter.h"

#include <utility>

#include "cli/output/status_text.h"
#include "cli/run/job_report.h"
#include "cli/text/log.h"

namespace hvdrun {

JobReporter::JobReporter(boost::asio::io_context& io, Viewer& viewer,
                         const std::vector<HostSlots>& hosts, EventLog events, std::string file,
                         std::function<void()> on_written)
    : viewer_(viewer), hosts_(hosts), events_(std::move(events)), file_(std::move(file)) {
  events_.start(io, [this, on_written = std::move(on_written)] {
    tell_fault();
    on_written();
  });
}

void JobReporter::tell_fault() {
  if (const std::string why = events_.take_fault(); !why.empty())
    viewer_.say("--events " + file_ + ": " + why + "; no more events are written");
}

void JobReporter::job_started(std::uint32_t size, const std::vector<std::string>& argv) {
  std::vector<std::string> names;
  for (const HostSlots& host : hosts_) names.push_back(host.name);
  events_.job_started(size, names, argv);
}

void JobReporter::on_output(const Output& output) {
  if (output.stream == OutputStream::err) stderr_tail_.add(output.rank, output.bytes);
  last_lines_.add(output.rank, output.bytes);
}

void JobReporter::on_progress(const JobProgress& message, std::chrono::milliseconds passed) {
  log_line(LogLevel::debug, std::to_string(message.hosts_ready) + " hosts ready, " +
                                std::to_string(message.started) + " of " +
                                std::to_string(message.size) + " ranks started, " +
                                std::to_string(message.joined) + " joined, after " +
                                std::to_string(passed.count()) + " ms");
  if (message.joined == message.size && !std::exchange(said_joined_, true) &&
      viewer_.stderr_is_terminal())
    viewer_.say(std::to_string(message.joined) + "/" + std::to_string(message.size) +
                " ranks joined in " + std::to_string(passed.count()) + " ms");
}

void JobReporter::on_status(const JobStatus& status) {
  viewer_.say(describe_status(status, [this](std::uint32_t rank) { return last_lines_.of(rank); }));
}

void JobReporter::on_rank(const RankEvent& event) {
  events_.rank(event, hosts_[event.host].name);
  tell_fault();
}

void JobReporter::on_stall(const StallWarning& warning) {
  viewer_.say(warning.lines);
  events_.stall(warning, hosts_);
  tell_fault();
}

void JobReporter::on_epoch(std::uint32_t number, const EpochBegun& epoch) {
  viewer_.say("epoch " + std::to_string(number) + ": the job goes on with " +
              std::to_string(epoch.members.size()) +
              (epoch.members.size() == 1 ? " rank" : " ranks"));
  events_.epoch(number, epoch);
  tell_fault();
}

void JobReporter::show_summary(const JobEnded& verdict) {
  events_.job_ended(verdict);
  const bool names_rank =
      verdict.cause == EndCause::rank_failed || verdict.cause == EndCause::early_exit;
  const auto last_lines =
      names_rank ? stderr_tail_.lines(verdict.rank) : std::vector<std::string>();
  viewer_.say(describe_failure(verdict, last_lines), Viewer::Kind::verdict);
}

}  // namespace hvdrun
