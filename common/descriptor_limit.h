// How many files this process may have open.
#pragma once

#include <cstdint>

namespace hvdrun {

// Raises the soft limit to the hard one: the usual 1024 is little for one that serves many ranks,
// each with pipes and connections of its own. Returns the soft limit as it was, for the programs of
// the user, which may rely on it (select()). One that cannot be raised is no fault: whoever opens
// a file too many says so.
std::uint64_t raise_descriptor_limit();

}  // namespace hvdrun
