// Programs that end while a GPU is at work for them: they must end by that signal or with that
// code.
#pragma once

#include <array>
#include <string>

#include "tests/gpu/check_rank.h"

namespace hvdrun::test {

// CheckRank::what: "end:HOW:MILLISECONDS", which count from the start of the process.
inline constexpr const char* kSuddenEnd = "end:";

struct SuddenEnd {
  const char* how;
  const char* wanted;  // as end_text() tells it
};
inline constexpr std::array kSuddenEnds{
    SuddenEnd{"SIGTERM", "signal 15"},
    SuddenEnd{"SIGINT", "signal 2"},
    SuddenEnd{"exit", "exit code 7"},
    SuddenEnd{"exit-of-thread", "exit code 7"},
    SuddenEnd{"exit-of-handler", "exit code 7"},
    SuddenEnd{"exception", "signal 6"},
};
// Words for what waitpid() has told.
std::string end_text(int status);

// Collectives and graphs of them, one after the other, until the end comes. Returns never.
void end_suddenly(const CheckRank& rank);

}  // namespace hvdrun::test
