// Samples that cannot be read, over all ranks.
#pragma once

#include "worker/labs/batches/dataset.h"
#include "worker/labs/data/files/bad_samples.h"

namespace hvdrun {

inline constexpr const char* kSkipHint = "--bad-data skip goes on without such files";

// Collective. How many all ranks have, and the first of them.
BadSamples bad_of_all_ranks(const BadSamples& mine);

// Collective. Looks at the files of all sets, each rank at its share and no longer than a few
// seconds. Throws Quit on all ranks when some of them cannot be read.
void refuse_bad_data(const DataSets& sets);

}  // namespace hvdrun
