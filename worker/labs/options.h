// The command line of `train`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "worker/labs/models/registry.h"

namespace hvdrun {

struct TrainOptions {
  std::string model = "mnist-cnn";
  // These three are the model's own where the command line says nothing.
  DataRequest data;
  ModelShape shape;
  Recipe recipe;
  std::uint64_t seed = 1;
  std::int64_t max_steps = 0;  // 0: no limit
  std::string checkpoint;      // empty: none is written
  std::string resume;
  std::string loss_log;
  std::string metrics_file;
  std::string log_dir;
  bool describe = false;  // print the model instead of training it
};

struct ParsedOptions {
  std::optional<TrainOptions> options;  // nothing: print `text` and leave with `exit_code`
  int exit_code = 0;
  std::string text;
};

ParsedOptions parse_train_options(int argc, const char* const* argv);

}  // namespace hvdrun
