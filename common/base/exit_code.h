// The exit codes of hvdrun: the one table. Documents, `hvdrun explain` and the man page are made of
// it or compared with it. A failing rank's own code passes through: its exit code, or kSignalBase
// and the signal that ended it.
#pragma once

#include <string_view>

namespace hvdrun::exit_code {

// Its fields stand in an order for readers.
// NOLINTNEXTLINE(clang-analyzer-optin.performance.Padding)
struct Row {
  int number;
  std::string_view name;
  const char* meaning;  // as in docs/exit-codes.md
  const char* advice;   // what to do about it
  bool is_own;          // said by hvdrun of a job that went wrong; a program may use the number too
};

inline constexpr Row kTable[] = {
    {0, "ok", "every rank exited with 0", "Nothing to do.", false},
    {64, "usage", "bad input: one or two lines say what to write instead; nothing was started",
     "Read the line; hvdrun --help TOPIC has the options, --dry-run shows the plan.", true},
    {69, "host", "a host cannot be used, did not come up in time, or was lost",
     "Look at the host that is named: is it up, reachable and not out of memory?", true},
    {70, "internal", "a fault of hvdrun, or its coordinator was killed",
     "Run again with --verbose; if it happens again, report it with that output.", true},
    {74, "output",
     "every rank exited with 0, but their output could not all be written; so of --help and the "
     "like, hvdrun's own",
     "Is the disk under stdout full, or stdout closed? The line on stderr names the error.", true},
    {75, "try again", "no more processes, descriptors or memory for now",
     "Look at ulimit -u, ulimit -n and free memory, or start fewer ranks.", true},
    {80, "stall", "ranks waited in vain for others",
     "The ranks that are named did not take part: do all ranks take the same steps?", true},
    {81, "early exit", "a rank exited with 0 while others still needed it",
     "Does every rank take the same number of steps before it ends?", true},
    {82, "stalled", "ranks waited longer than --stall-check-shutdown-time-seconds for others",
     "The lines before name tensor and missing ranks: do all ranks take the same steps?", true},
    {83, "too few ranks", "an elastic job had fewer ranks than --min-np for --elastic-timeout",
     "The lines before name the ranks that were lost, and why; a lower --min-np goes on without "
     "them.",
     true},
    {84, "unusable", "a rank of an elastic job could not go on in its process: its GPU failed",
     "The rank's last line says why; the launcher starts it again, until it has failed too often.",
     false},
    {85, "too many resets",
     "the ranks of an elastic job would have met anew once more than "
     "--reset-limit allows",
     "The line names what the ranks were last to meet anew for.", true},
    {124, "timeout", "the time of --timeout was over", "Give it longer, or find what hangs.", true},
    {126, "not executable", "the program is there but cannot be executed",
     "Is it executable (chmod +x), for this machine, with all its libraries?", true},
    {127, "not found", "there is no such program",
     "Write its path, ./train say; without a / it is looked for in PATH.", true},
};

// The row of a number; nullptr: hvdrun gives it no meaning.
constexpr const Row* find_row(int number) {
  for (const Row& row : kTable)
    if (row.number == number) return &row;
  return nullptr;
}

constexpr bool is_own(int number) {
  const Row* const row = find_row(number);
  return row != nullptr && row->is_own;
}

// For the constants below: a name that is in no row does not compile.
constexpr int number_of(std::string_view name) {
  for (const Row& row : kTable)
    if (row.name == name) return row.number;
  throw name;
}

inline constexpr int kOk = number_of("ok");
inline constexpr int kUsage = number_of("usage");
inline constexpr int kHost = number_of("host");
inline constexpr int kInternal = number_of("internal");
inline constexpr int kOutput = number_of("output");
inline constexpr int kTryAgain = number_of("try again");
inline constexpr int kStall = number_of("stall");
inline constexpr int kEarlyExit = number_of("early exit");
inline constexpr int kStalled = number_of("stalled");
inline constexpr int kTooFewRanks = number_of("too few ranks");
inline constexpr int kTooManyResets = number_of("too many resets");
inline constexpr int kUnusable = number_of("unusable");
inline constexpr int kTimeout = number_of("timeout");
inline constexpr int kNotExecutable = number_of("not executable");
inline constexpr int kNotFound = number_of("not found");
// A signal's code is this and its number; no code of hvdrun's own.
inline constexpr int kSignalBase = 128;

}  // namespace hvdrun::exit_code
