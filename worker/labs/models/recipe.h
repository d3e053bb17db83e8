// The training of a model unless the command line says otherwise: the numbers of its source.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hvdrun {

// From this epoch on, counted from 0, the learning rate is this part of the first one.
struct LearningRateDrop {
  std::int64_t epoch;
  double factor;
};

// The optimizers of make_optimizer() in optimizers.h.
inline const std::vector<std::string>& optimizer_names() {
  static const std::vector<std::string> names = {"sgd", "adam", "novograd", "lamb"};
  return names;
}

// Values here are for a model that says nothing else.
struct Recipe {
  std::string optimizer = "sgd";
  std::int64_t epochs = 3;
  std::int64_t batch_size = 32;  // of one rank
  std::int64_t test_batch_size = 256;
  double lr = 0.01;       // of one rank
  double momentum = 0.5;  // of sgd
  // Times every trained weight: sgd and adam add it to the gradient (L2), lamb and novograd to the
  // normalised step, as their papers have it. A
  // model's own penalty() comes on top.
  double weight_decay = 0;
  // From the rate of one rank to that of all of them in a straight line.
  std::int64_t warmup_epochs = 0;
  std::vector<LearningRateDrop> drops = {};  // in the order of epochs, after the warm-up
  // The end when the accuracy on the test images has been above it after so many epochs in a row;
  // 0: no such end.
  double target_accuracy = 0;
  std::int64_t patience = 2;
  // The end when the loss on what is held back for validation has not become lower for `patience`
  // epochs in a row.
  bool stops_on_loss = false;

  std::int64_t log_interval = 0;  // in steps; 0: no line but that of the epoch
  std::uint64_t seed = 1;

  // Times that all ranks together go over the validation set after an epoch.
  std::int64_t validation_passes = 1;

  // The part of the first rate that holds in an epoch after the warm-up.
  double factor(double epoch) const {
    double now = 1;
    for (const LearningRateDrop& drop : drops)
      if (epoch >= static_cast<double>(drop.epoch)) now = drop.factor;
    return now;
  }
};

}  // namespace hvdrun
