// An agent's leave once the job is over: nothing of it is left, and all that it has printed is on
// its way.
#include <chrono>
#include <poll.h>
#include <string>
#include <unistd.h>
#include <utility>

#include "common/process/process_tree.h"
#include "worker/agent/agent.h"
#include "worker/agent/ranks/held_pipes.h"

namespace hvdrun {
namespace {

constexpr std::chrono::milliseconds kLookForHolders{500};

// Only if it is taken at once: nobody waits for a reader of these.
void say_on_stderr(const std::string& line) {
  pollfd err{STDERR_FILENO, POLLOUT, 0};
  if (::poll(&err, 1, 0) > 0 && (err.revents & POLLOUT) != 0)
    (void)!::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace

void Agent::end_job() {
  if (notifier_) notifier_->stop();
  ending_ = true;
  exit_code_ = 0;
  timeline_.finish();
  move_timeline();
  // A viewer that cannot be reached any more is not waited for.
  if (output_ && !files_) output_->keep_trying_for(patience_of(lease_length()));
  finish_if_quiet();
}

// A pipe ends when the last process that holds it has: sweep until none of the job is left, and
// that is the kernel's word, since a scan may miss who is just being forked. Then whatever is still
// to come is in the pipes. Somebody else may have one all the same, to whom a rank has handed it;
// the ranks' own ends are what counts.
void Agent::finish_if_quiet() {
  if (!ending_) return;
  sweeping_ = kill_descendants() > 0 || has_children();
  arm_timer();
  if (sweeping_) return;
  pump_.finish([this](std::uint32_t rank, OutputStream stream, int pipe) {
    held_pipes_.add(rank, stream, pipe);
  });
  if (!pump_.all_closed()) return;
  // Files may be on their way for as long as somebody writes them there.
  if (files_ && !files_->is_done()) return files_->finish([this] { finish_if_quiet(); });
  if (output_) output_->keep_trying_for(patience_of(lease_length()));
  for (const std::string& line : std::exchange(held_pipes_, {}).describe(kLookForHolders))
    say_on_stderr("hvd-agent on " + bootstrap_.host_name + ": " + line + "\n");
  const auto leave = [this] {
    if (control_) control_->close();
    io_.stop();
  };
  if (!output_) return leave();
  output_->close_when_sent(leave);
}

}  // namespace hvdrun
