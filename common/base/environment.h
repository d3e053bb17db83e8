// Variables of a process, as a list: found, set and taken out by name. Sans-I/O.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

using Environment = std::vector<std::string>;  // NAME=value

// That of this process.
Environment own_environment();

// The value of a variable, or nullptr.
const char* find_variable(const Environment& env, std::string_view name);
// Replaces or appends.
void set_variable(Environment& env, std::string_view name, std::string_view value);
void erase_variable(Environment& env, std::string_view name);
// Sets what the entries of `others` say. An entry without '=' is an empty variable.
void set_variables(Environment& env, const Environment& others);

}  // namespace hvdrun
