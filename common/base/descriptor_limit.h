// The limit of files that this process may have open.
#pragma once

#include <cstdint>
#include <string>
#include <system_error>

#include "common/base/unique_fd.h"

namespace hvdrun {

// Raises the soft limit to the hard one: the usual 1024 is little for one that serves many ranks,
// each with pipes and connections of its own. Returns the soft limit as it was, for the programs of
// the user, which may rely on it (select()). One that cannot be raised is no fault: whoever opens
// a file too many says so.
std::uint64_t raise_descriptor_limit();

// For a library in a program of the user's, which may rely on select() for files of its own: that
// knows the first 1024 numbers only. Once three quarters of them are used, ours get higher ones,
// and the limit is raised for it. Where that is impossible the number stays.
UniqueFd leave_low_numbers(UniqueFd fd);

// A cure where all descriptors are in use, to stand behind the words of `ec`: "; ...". The kernel's
// own ("Too many open files") name neither the limit nor who sets it. Empty when `ec` means
// something else.
std::string descriptor_cure(const std::error_code& ec);
// The kernel's words for an errno, and the cure behind them.
std::string system_fault_text(int error);

}  // namespace hvdrun
