// A launch's record of the variables that it has set for a rank, in that rank's environment: names,
// and a hash of each value, in one variable. A launcher that the rank starts tells it from what the
// user has set since. Sans-I/O.
#pragma once

#include <string>
#include <string_view>

#include "common/base/environment.h"

namespace hvdrun {

// NAME:HASH, blank separated; 8 hexadecimal digits of FNV-1a.
inline constexpr std::string_view kLaunchRecord = "HVD_LAUNCH_SET";

// Adds a variable to a record. What has been written down stays: either value counts.
void add_to_record(std::string& record, std::string_view name, std::string_view value);

// Removes the record, and the variables in it that have the value that it knows.
void drop_recorded_variables(Environment& env);

}  // namespace hvdrun
