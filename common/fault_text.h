// What the system says of a fault, and what to do about it where all descriptors are in use: the
// kernel's words alone ("Too many open files") name neither the limit nor who sets it.
#pragma once

#include <exception>
#include <string>
#include <system_error>

namespace hvdrun {

// To stand behind the words of `ec`: "; ...". Empty when it means something else.
std::string descriptor_cure(const std::error_code& ec);

// Of one line, both.
std::string fault_text(const std::error_code& ec);
// Its own words, and those above when it carries an error of the system.
std::string fault_text(const std::exception& fault);
// That error; none: 0.
std::error_code code_of(const std::exception& fault);

}  // namespace hvdrun
