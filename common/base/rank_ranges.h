// Ranks for people: "0-3, 7".
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace hvdrun {

// `ranks` in ascending order; runs of three and more are folded. After `at_most` numbers and runs
// the rest is counted: "0-3, 7 and 12 more".
std::string rank_ranges(const std::vector<std::uint32_t>& ranks, std::size_t at_most = SIZE_MAX);

}  // namespace hvdrun
