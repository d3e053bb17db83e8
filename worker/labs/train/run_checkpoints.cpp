#include "worker/labs/train/run_checkpoints.h"

#include <cstdint>
#include <optional>
#include <utility>

#include <hvd/hvd.h>

#include "worker/labs/base/agreement.h"
#include "worker/labs/base/start_place.h"
#include "worker/labs/base/train_exit_codes.h"

namespace hvdrun {

void RunCheckpoints::find() {
  if (options_.resume.empty() && !start_place().again) return;
  std::string error;
  const bool reads = is_alone() || hvd::rank() == 0;
  const StartPlace start = start_place();
  // A file of --checkpoint might be anybody's.
  is_own_ = reads && start.again && !options_.checkpoint_dir.empty() &&
            CheckpointFolder(options_.checkpoint_dir, options_.keep).is_of(start.job);
  const std::string& place = is_own_ ? options_.checkpoint_dir : options_.resume;
  if (reads && !place.empty()) {
    auto found = find_checkpoint(place, is_finite_checkpoint, error).value_or(FoundCheckpoint{});
    if (!found.path.empty())
      for (const std::string& damage : found.damaged)
        console_.warn(damage + "; going on from " + found.path);
    path_ = std::move(found.path);
    bytes_ = std::move(found.bytes);
  }
  agree(path_.empty() ? error : "", exit_no_input);
  broadcast_bytes(bytes_);
  found_ = !bytes_.empty();
  progress_.seed = checkpoint_seed(bytes_).value_or(progress_.seed);
}

bool RunCheckpoints::restore(torch::nn::Module& model, torch::optim::Optimizer& optimizer) {
  if (!found_) return false;
  std::string error;
  const CheckpointFault fault =
      decode_checkpoint(bytes_, names(), model, optimizer, progress_, error);
  if (fault != CheckpointFault::none) error.insert(0, path_ + ": ");
  agree(error, fault == CheckpointFault::other_options ? exit_usage : exit_no_input);
  bytes_ = {};
  return true;
}

void RunCheckpoints::compare_data(const Dataset& train) {
  if (options_.synthetic) return;  // as many as the ranks want, of no meaning
  const TrainingSet now{train.checksum(), static_cast<std::int64_t>(train.size())};
  const std::optional<TrainingSet> before = std::exchange(progress_.data, now);
  if (!before || (before->checksum == now.checksum && before->samples == now.samples)) return;
  const std::string had = std::to_string(before->samples);
  const std::string has = std::to_string(now.samples);
  console_.warn(path_ + " was trained on other data (" + had + " training " +
                find_model(options_.model)->data.samples + ") than that of " +
                options_.data.directory + " (" + has + (had == has ? ", with other content" : "") +
                "); going on with the latter, --data-dir names another folder");
}

std::string RunCheckpoints::encode(const torch::nn::Module& model,
                                   const torch::optim::Optimizer& optimizer) {
  std::string bytes = encode_checkpoint(names(), model, optimizer, progress_);
  std::string fault;
  if (is_finite_checkpoint(bytes, fault)) return bytes;
  console_.warn("epoch " + std::to_string(progress_.epochs) + ": no checkpoint is written, " +
                fault);
  return {};
}

// A vocabulary gives rows of the same shape to other words.
CheckpointNames RunCheckpoints::names() const {
  std::string model = options_.model;
  if (options_.data.vocabulary > 0)
    model += " --vocabulary " + std::to_string(options_.data.vocabulary);
  return {model, options_.recipe.optimizer, options_.freeze_embedding};
}

}  // namespace hvdrun
