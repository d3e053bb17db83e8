// Ranks for people: "0-3, 7".
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hvdrun {

// `ranks` in ascending order; runs of three and more are folded.
std::string rank_ranges(const std::vector<std::uint32_t>& ranks);

}  // namespace hvdrun
