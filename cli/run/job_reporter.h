// Tells what becomes of a job while it runs and in its end: on stderr by the viewer, and in the
// file of --events. Keeps what that needs of the ranks' output.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "cli/output/viewer.h"
#include "cli/run/event_log.h"
#include "cli/text/last_lines.h"
#include "cli/text/stderr_tail.h"

namespace hvdrun {

class JobReporter {
 public:
  // `file` is for the user, where events cannot be written; `on_written`: is_written() may be true
  // now. The viewer and the hosts live longer.
  JobReporter(boost::asio::io_context& io, Viewer& viewer, const std::vector<HostSlots>& hosts,
              EventLog events, std::string file, std::function<void()> on_written);

  void job_started(std::uint32_t size, const std::vector<std::string>& argv);
  void on_output(const Output& output);
  void on_progress(const JobProgress& message, std::chrono::milliseconds passed);
  void on_status(const JobStatus& status);
  void on_rank(const RankEvent& event);
  void on_stall(const StallWarning& warning);
  void on_epoch(std::uint32_t number, const EpochBegun& epoch);
  // The end, for --events alone.
  void job_ended(const JobEnded& verdict) { events_.job_ended(verdict); }
  // The end, for the user too.
  void show_summary(const JobEnded& verdict);

  // Everything has been taken by the reader of the events.
  bool is_written() const { return events_.is_written(); }
  // That reader is given up when nothing is taken for so long.
  void hurry(std::chrono::milliseconds patience) { events_.hurry(patience); }

 private:
  void tell_fault();

  Viewer& viewer_;
  const std::vector<HostSlots>& hosts_;
  EventLog events_;
  std::string file_;
  StderrTail stderr_tail_;
  LastLines last_lines_;
  bool said_joined_ = false;
};

}  // namespace hvdrun
