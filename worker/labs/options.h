// The command line of `train`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace hvdrun {

struct TrainOptions {
  std::string model = "mnist-cnn";
  std::string data_dir = "data/mnist";
  std::int64_t epochs = 3;
  std::int64_t batch_size = 32;  // of one rank
  double lr = 0.01;              // of one rank; times the number of ranks it is the real one
  double momentum = 0.5;
  double dropout = 0.5;  // the model's own unless given
  std::uint64_t seed = 1;
  std::int64_t max_steps = 0;  // 0: no limit
  std::string checkpoint;      // empty: none is written
  std::string resume;
  std::string loss_log;
  bool describe = false;  // print the model instead of training it
};

struct ParsedOptions {
  std::optional<TrainOptions> options;  // nothing: print `text` and leave with `exit_code`
  int exit_code = 0;
  std::string text;
};

ParsedOptions parse_train_options(int argc, const char* const* argv);

}  // namespace hvdrun
