// The room that a line of a rank has on the terminal that shows it, behind its tag. Ranks, whose
// output is a pipe, learn it as HVD_OUTPUT_COLUMNS and may then draw a progress bar.
#pragma once

#include <cstdint>

#include "cli/options/options.h"
#include "cli/output/output_tag.h"

namespace hvdrun {

// Columns of the terminal that stdout is; 0 where it is none, or one that cannot go back in a line.
std::uint32_t stdout_columns();

// The part of `columns` that the longest tag of a line on stdout leaves. 0: nothing, or the output
// is kept in files as well, which a bar would fill with a line for each time it is drawn.
std::uint32_t columns_behind_tags(std::uint32_t columns, const OutputOptions& output,
                                  const RankTable& table);

}  // namespace hvdrun
