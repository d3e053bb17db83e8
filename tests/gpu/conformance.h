// The cases for collectives on GPUs: every operation and type, in place and not, even and uneven
// counts, scale factors. The numbers are small whole ones, so that any order of combining them is
// exact. Averages and scaled values are compared within the type's precision. Then the table of
// <hvd/numbers.h>, as bits (tests/unit/worker/hvd/comm/reduce/number_rules.h).
#pragma once

#include <string>

#include "tests/gpu/gpu_rank.h"

namespace hvdrun::test {

// Runs them all on this rank, as all ranks must at the same time. Throws std::runtime_error with
// the case for a wrong result, hvd::Error for one that fails. `largest`: elements of the largest
// buffers. Returns how many were run.
int run_gpu_conformance(GpuRank& rank, bool have_kernels, std::size_t largest);
// Only the table of numbers.
int run_gpu_number_rules(GpuRank& rank, bool have_kernels);

}  // namespace hvdrun::test
