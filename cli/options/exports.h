// Variables for the ranks: -x and --env-file. Sans-I/O.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/environment.h"

namespace hvdrun {

// NAME=VALUE is set; NAME, or a pattern such as NCCL_*, is in `env` already and goes along. So does
// a NAME that only `own` has, hvdrun's environment with what an outer job set. When there is none,
// a warning. Throws UsageError.
void apply_exports(const std::vector<std::string>& exports, const Environment& own,
                   Environment& env, std::vector<std::string>& warnings);

// A line each: NAME=VALUE, 'export ' before it or not; VALUE in single or double quotes or none; #
// begins a comment. Throws UsageError with file and line.
std::vector<std::pair<std::string, std::string>> parse_env_file(std::string_view text,
                                                                const std::string& file);

}  // namespace hvdrun
