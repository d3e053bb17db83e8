// The state of a training run in one file: model, optimizer, where it stood. It does not know how
// many ranks made it, so any number may go on from it.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include <torch/torch.h>

namespace hvdrun {

// By what two of them are told apart.
struct TrainingSet {
  std::uint32_t checksum = 0;  // Dataset::checksum()
  std::int64_t samples = 0;
};

struct Progress {
  std::int64_t epochs = 0;  // finished
  std::int64_t steps = 0;   // in all
  std::uint64_t seed = 0;
  std::int64_t on_target = 0;  // epochs in a row, the last one included
  double best_loss = std::numeric_limits<double>::infinity();  // on the validation set
  std::int64_t without_gain = 0;                               // epochs since
  double seconds = 0;  // that the epochs have taken, without evaluations
  std::optional<TrainingSet> data = std::nullopt;  // none: made-up numbers, or not known
};

// The run that a checkpoint fits to.
struct CheckpointNames {
  std::string model;
  std::string optimizer = "sgd";
  bool frozen_words = false;  // --freeze-embedding: their vectors are not the optimizer's
};

// A reason not to go on from a checkpoint.
enum class CheckpointFault {
  none,
  unfit,         // damaged, or of another model
  other_options  // with the options of the run that has made it it can be gone on from
};

// The bytes of a file, checksum included.
std::string encode_checkpoint(const CheckpointNames& names, const torch::nn::Module& model,
                              const torch::optim::Optimizer& optimizer, const Progress& progress);

// The seed of the run that has made it. The data that are held back follow from it, so it is needed
// before there is a model. Nothing when the bytes are no checkpoint; decode_checkpoint() says what
// is wrong.
std::optional<std::uint64_t> checkpoint_seed(std::string_view bytes);

// True when weights, running means and the optimizer's state in it are all numbers; otherwise
// `error` names one. Bytes that are no checkpoint are taken for sound, too.
bool is_finite_checkpoint(std::string_view bytes, std::string& error);

// Into a model and an optimizer of the same make. A fault has one line in `error`, which does not
// name the file; model and optimizer are then partly overwritten.
CheckpointFault decode_checkpoint(std::string_view bytes, const CheckpointNames& names,
                                  torch::nn::Module& model, torch::optim::Optimizer& optimizer,
                                  Progress& progress, std::string& error);

}  // namespace hvdrun
