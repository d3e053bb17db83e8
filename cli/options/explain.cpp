#include "cli/options/explain.h"

#include <array>
#include <charconv>
#include <signal.h>

#include "cli/text/user_errors.h"
#include "common/base/exit_code.h"
#include "common/base/printable.h"
#include "common/process/signal_words.h"

namespace hvdrun {
namespace {

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

std::string explain_exit_code(const std::vector<std::string>& arguments) {
  if (arguments.size() != 1) throw UsageError("which exit code? write hvdrun explain 137");
  const std::string& word = arguments.front();
  int code = -1;
  const auto [end, ec] = std::from_chars(word.data(), word.data() + word.size(), code);
  if (ec != std::errc() || end != word.data() + word.size() || code < 0 || code > 255)
    throw UsageError("explain " + quoted_word(word) + ": an exit code from 0 to 255 is needed");
  std::string text = word + ": ";
  if (const exit_code::Row* const row = exit_code::find_row(code))
    return text + row->meaning + ".\n" + row->advice + "\n" +
           (row->is_own ? "Or a rank itself exited with it; hvdrun's last line tells.\n" : "");
  const int signal = code - exit_code::kSignalBase;
  const std::string name = signal_name(signal);
  if (name.empty())
    return text + "the first rank that failed exited with this code.\n" + kAdviceForOthers + "\n";
  text += "the first rank that failed was killed by " + name +
          ", or hvdrun itself got it and ended the job.\n";
  for (const SignalRow& row : kSignals)
    if (row.signal == signal) return text + row.advice + "\n";
  return text + kAdviceForOthers + "\n";
}

}  // namespace hvdrun
