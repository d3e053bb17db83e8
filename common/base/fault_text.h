// The system's words for a fault, with the cure where all descriptors are in use (descriptor_cure).
#pragma once

#include <exception>
#include <string>
#include <system_error>

namespace hvdrun {

// Both in one line.
std::string fault_text(const std::error_code& ec);
// Its own words, and those above when it carries an error of the system.
std::string fault_text(const std::exception& fault);
// That error; none: 0.
std::error_code code_of(const std::exception& fault);

}  // namespace hvdrun
