// That the optimizers of all ranks mean the same by their operations, and other calls that are
// many.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <hvd/torch.h>

#include "worker/hvd/torch/parameter_names.h"

namespace hvdrun {

// The layout that must be the same on all ranks, in words: a line for each parameter, one for the
// options.
std::vector<std::string> layout_of(const std::vector<at::Tensor>& parameters,
                                   const ParameterNames& names,
                                   const hvd::DistributedOptimizerOptions& options);

// The name that ranks give the optimizer. Throws Error(mismatch) on every rank of the set when the
// lines differ, which shows the first that does: buckets of other shapes would be added up without
// complaint wherever their sizes happen to agree.
std::string confirm_same_layout(const std::vector<std::string>& lines, const hvd::ProcessSet& set);

// For other calls: Error(mismatch) on every rank of the set that shows the first line that differs.
// Ranks that have joined have none.
void confirm_same_lines(const char* call, const std::vector<std::string>& lines,
                        const hvd::ProcessSet& set);

// A number for lines, by which ranks can compare many of them.
std::int64_t hash_of(const std::vector<std::string>& lines);

// In place of confirm_same_layout() on a rank that cannot make its optimizer; the others, which
// would wait for it, throw Error(mismatch) that says why.
void refuse_layout(const std::string& why, const hvd::ProcessSet& set);

}  // namespace hvdrun
