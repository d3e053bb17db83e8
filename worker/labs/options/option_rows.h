// The options of `train`, a row each: help, reading, limits, and what all ranks must agree in come
// from it. A new one is a member of TrainOptions and a row in option_rows.cpp.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "worker/labs/options/train_options.h"

namespace hvdrun {

struct TrainOptionRow {
  const char* name;   // without the two hyphens
  const char* value;  // what stands behind it, for the help; null: nothing does
  std::string help;
  // `word` is what the user wrote, empty for an option without a value. Throws
  // std::invalid_argument, with a text for the user.
  std::function<void(TrainOptions& to, const std::string& word)> put;
  // The value that must be the same on all ranks, as text. Null: each may have its own.
  std::function<std::string(const TrainOptions& from)> agreed;
};

// In the order of the help.
const std::vector<TrainOptionRow>& option_rows();
// The values that all ranks must agree in, with the model.
std::string agreed_options(const TrainOptions& options);

}  // namespace hvdrun
