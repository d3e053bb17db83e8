#include "cli/options/exit_codes.h"

#include <array>
#include <charconv>
#include <signal.h>

#include <string.h>

#include "cli/text/user_errors.h"
#include "common/base/exit_code.h"
#include "common/base/printable.h"

namespace hvdrun {
namespace {

constexpr auto kExitCodes = std::to_array<ExitCodeRow>({
    {exit_code::kOk, "every rank exited with 0", "Nothing to do."},
    {exit_code::kUsage,
     "bad input: one or two lines say what to write instead; nothing was started",
     "Read the line; hvdrun --help TOPIC has the options, --dry-run shows the plan."},
    {exit_code::kHost, "a host cannot be used, did not come up in time, or was lost",
     "Look at the host that is named: is it up, reachable and not out of memory?"},
    {exit_code::kInternal, "a fault of hvdrun, or its coordinator was killed",
     "Run again with --verbose; if it happens again, report it with that output."},
    {exit_code::kOutput,
     "every rank exited with 0, but their output could not all be written; so of --help and the "
     "like, hvdrun's own",
     "Is the disk under stdout full, or stdout closed? The line on stderr names the error."},
    {exit_code::kTryAgain, "no more processes, descriptors or memory for now",
     "Look at ulimit -u, ulimit -n and free memory, or start fewer ranks."},
    {exit_code::kStall, "ranks waited in vain for others",
     "The ranks that are named did not take part: do all ranks take the same steps?"},
    {exit_code::kEarlyExit, "a rank exited with 0 while others still needed it",
     "Does every rank take the same number of steps before it ends?"},
    {exit_code::kStalled, "ranks waited longer than --stall-check-shutdown-time-seconds for others",
     "The lines before name tensor and missing ranks: do all ranks take the same steps?"},
    {exit_code::kTimeout, "the time of --timeout was over", "Give it longer, or find what hangs."},
    {exit_code::kNotExecutable, "the program is there but cannot be executed",
     "Is it executable (chmod +x), for this machine, with all its libraries?"},
    {exit_code::kNotFound, "there is no such program",
     "Write its path, ./train say; without a / it is looked for in PATH."},
});

struct SignalRow {
  int signal;
  const char* advice;
};

constexpr auto kSignals = std::to_array<SignalRow>({
    {SIGHUP, "The terminal was closed: start hvdrun with nohup, tmux or a batch system."},
    {SIGINT, "Ctrl-C was pressed."},
    {SIGILL, "The program has instructions that this processor lacks: was it built for another?"},
    {SIGABRT, "The program gave up (assert, uncaught exception); its last lines say why."},
    {SIGBUS, "Often a full /dev/shm (docker run --shm-size=8g), or a file cut off while mapped."},
    {SIGFPE, "An integer was divided by zero."},
    {SIGKILL, "Often the kernel's out-of-memory killer (dmesg), or a batch system's limit."},
    {SIGSEGV, "The program crashed: run it under gdb, or with AddressSanitizer."},
    {SIGPIPE, "Nobody reads the output any more, as in hvdrun ... | head."},
    {SIGTERM, "Somebody ended it: a batch system's time limit, or kill."},
    {SIGXCPU, "The limit of processor time was reached (ulimit -t)."},
});

constexpr const char* kAdviceForOthers = "Its own output says why.";

}  // namespace

std::span<const ExitCodeRow> exit_code_table() { return kExitCodes; }

std::string explain_exit_code(const std::vector<std::string>& arguments) {
  if (arguments.size() != 1) throw UsageError("which exit code? write hvdrun explain 137");
  const std::string& word = arguments.front();
  int code = -1;
  const auto [end, ec] = std::from_chars(word.data(), word.data() + word.size(), code);
  if (ec != std::errc() || end != word.data() + word.size() || code < 0 || code > 255)
    throw UsageError("explain " + quoted_word(word) + ": an exit code from 0 to 255 is needed");
  std::string text = word + ": ";
  for (const ExitCodeRow& row : kExitCodes)
    if (row.code == code)
      return text + row.meaning + ".\n" + row.advice + "\n" +
             (code == 0 ? "" : "Or a rank itself exited with it; hvdrun's last line tells.\n");
  const int signal = code - exit_code::kSignalBase;
  const char* const name = signal > 0 ? ::sigabbrev_np(signal) : nullptr;
  if (name == nullptr)
    return text + "the first rank that failed exited with this code.\n" + kAdviceForOthers + "\n";
  text += "the first rank that failed was killed by SIG" + std::string(name) +
          ", or hvdrun itself got it and ended the job.\n";
  for (const SignalRow& row : kSignals)
    if (row.signal == signal) return text + row.advice + "\n";
  return text + kAdviceForOthers + "\n";
}

}  // namespace hvdrun
