// Errors of operations, as their callers get them.
#pragma once

#include <memory>

#include <hvd/hvd.h>

#include "worker/hvd/engine/operation.h"

namespace hvdrun {

// The error with the operation's name and description in place of the communicator's own words.
hvd::Error named_error(const Operation& operation, const hvd::Error& error);

// Copies that share nothing: copies of an exception share their text, and the last one that goes
// frees it, on whatever thread.
std::shared_ptr<const hvd::Error> failure_of(const hvd::Error& error);
[[noreturn]] void throw_copy(const hvd::Error& error);

}  // namespace hvdrun
