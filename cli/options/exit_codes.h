// What hvdrun's exit codes mean: the one table for `hvdrun explain`, the man page and
// docs/exit-codes.md.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace hvdrun {

struct ExitCodeRow {
  int code;
  const char* meaning;  // as in docs/exit-codes.md
  const char* advice;   // what to do about it
};

// hvdrun's own codes, without those that a rank or a signal gives.
std::span<const ExitCodeRow> exit_code_table();

// The text of `hvdrun explain CODE`. Throws UsageError.
std::string explain_exit_code(const std::vector<std::string>& arguments);

}  // namespace hvdrun
