// Copies of a collective.
#pragma once

#include <cstddef>

namespace hvdrun {

// Nothing for 0 bytes, whatever the pointers.
void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes);

// The same past the caches: the target's lines are not fetched before they are overwritten, and
// what is in the cache stays there. Faster only where the target would not stay in the cache
// anyway.
void stream_bytes(std::byte* to, const std::byte* from, std::size_t bytes);

using Copy = void (*)(std::byte* to, const std::byte* from, std::size_t bytes);
// The one of the two that fits targets of so many bytes, those of all ranks of the host together.
Copy copy_for(std::size_t bytes);

}  // namespace hvdrun
