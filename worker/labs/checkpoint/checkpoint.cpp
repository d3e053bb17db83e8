#include "worker/labs/checkpoint/checkpoint.h"

#include <sstream>
#include <vector>

#include "worker/labs/checkpoint/checked_file.h"

namespace hvdrun {
namespace {

constexpr std::int64_t kFormat = 1;

std::int64_t read_int(torch::serialize::InputArchive& archive, const std::string& key) {
  c10::IValue value;
  archive.read(key, value);
  return value.toInt();
}

// A line for each tensor: "fc.weight [10, 320] Float". Torch loads any tensor in the place of any
// other.
std::vector<std::string> layout_of(const torch::nn::Module& model) {
  std::vector<std::string> lines;
  const auto add = [&](const auto& tensors) {
    for (const auto& item : tensors) {
      std::ostringstream line;
      line << item.key() << " " << item.value().sizes() << " " << item.value().scalar_type();
      lines.push_back(line.str());
    }
  };
  add(model.named_parameters());
  add(model.named_buffers());
  return lines;
}

// The first of the model's tensors that is other than in the checkpoint; empty: nothing.
std::string difference(const std::string& saved, const torch::nn::Module& model) {
  std::istringstream lines(saved);
  std::ostringstream text;
  std::string theirs;
  for (const std::string& ours : layout_of(model)) {
    if (!std::getline(lines, theirs)) theirs = "nothing";
    if (theirs == ours) continue;
    text << "it has " << theirs << " where this model has " << ours
         << "; --width, --depth, --classes, --dtype or the classes of the data were others";
    return text.str();
  }
  if (std::getline(lines, theirs)) text << "it has " << theirs << ", which this model has not";
  return text.str();
}

// The name of a tensor below `path` that is not finite; empty: none.
std::string not_finite_in(torch::serialize::InputArchive& archive, const std::string& path) {
  for (const std::string& key : archive.keys()) {
    c10::IValue value;
    if (!archive.try_read(key, value)) continue;
    std::string name = path;
    name.append(path.empty() ? "" : ".").append(key);
    if (value.isTensor()) {
      const at::Tensor& tensor = value.toTensor();
      if (tensor.defined() && tensor.is_floating_point() &&
          !at::isfinite(tensor).all().item<bool>())
        return name;
    } else if (value.isObject()) {
      torch::serialize::InputArchive inner;
      if (!archive.try_read(key, inner)) continue;
      std::string found = not_finite_in(inner, name);
      if (!found.empty()) return found;
    }
  }
  return {};
}

}  // namespace

std::string encode_checkpoint(const CheckpointNames& names, const torch::nn::Module& model,
                              const torch::optim::Optimizer& optimizer, const Progress& progress) {
  torch::serialize::OutputArchive archive;
  archive.write("format", c10::IValue(kFormat));
  archive.write("model_name", c10::IValue(names.model));
  archive.write("optimizer_name", c10::IValue(names.optimizer));
  archive.write("frozen_words", c10::IValue(names.frozen_words));
  archive.write("epochs", c10::IValue(progress.epochs));
  archive.write("steps", c10::IValue(progress.steps));
  archive.write("seed", c10::IValue(static_cast<std::int64_t>(progress.seed)));
  archive.write("on_target", c10::IValue(progress.on_target));
  archive.write("best_loss", c10::IValue(progress.best_loss));
  archive.write("without_gain", c10::IValue(progress.without_gain));
  archive.write("seconds", c10::IValue(progress.seconds));
  if (progress.data) {
    archive.write("data_checksum", c10::IValue(std::int64_t{progress.data->checksum}));
    archive.write("data_samples", c10::IValue(progress.data->samples));
  }
  std::string layout;
  for (const std::string& line : layout_of(model)) layout += line + "\n";
  archive.write("layout", c10::IValue(layout));
  torch::serialize::OutputArchive model_archive;
  model.save(model_archive);
  archive.write("model", model_archive);
  torch::serialize::OutputArchive optimizer_archive;
  optimizer.save(optimizer_archive);
  archive.write("optimizer", optimizer_archive);
  std::ostringstream stream;
  archive.save_to(stream);
  return add_checksum(stream.str());
}

std::optional<std::uint64_t> checkpoint_seed(std::string_view bytes) {
  std::string error;
  const auto content = verify_checksum(bytes, error);
  if (!content) return std::nullopt;
  try {
    torch::serialize::InputArchive archive;
    archive.load_from(content->data(), content->size());
    return static_cast<std::uint64_t>(read_int(archive, "seed"));
  } catch (const c10::Error&) {
    return std::nullopt;
  }
}

bool is_finite_checkpoint(std::string_view bytes, std::string& error) {
  std::string damage;
  const auto content = verify_checksum(bytes, damage);
  if (!content) return true;
  try {
    torch::serialize::InputArchive archive;
    archive.load_from(content->data(), content->size(), torch::Device(torch::kCPU));
    const std::string name = not_finite_in(archive, "");
    if (!name.empty()) error = name + " is not finite in it";
    return name.empty();
  } catch (const c10::Error&) {
    return true;
  }
}

CheckpointFault decode_checkpoint(std::string_view bytes, const CheckpointNames& names,
                                  torch::nn::Module& model, torch::optim::Optimizer& optimizer,
                                  Progress& progress, std::string& error) {
  const auto content = verify_checksum(bytes, error);
  if (!content) return CheckpointFault::unfit;
  try {
    torch::serialize::InputArchive archive;
    // To where the model is, wherever it was when it was saved.
    const auto parameters = model.parameters();
    archive.load_from(
        content->data(), content->size(),
        parameters.empty() ? torch::Device(torch::kCPU) : parameters.front().device());
    const std::int64_t format = read_int(archive, "format");
    if (format != kFormat) {
      error = "a checkpoint of format " + std::to_string(format) + ", " + std::to_string(kFormat) +
              " expected";
      return CheckpointFault::unfit;
    }
    c10::IValue name;
    archive.read("model_name", name);
    if (name.toStringRef() != names.model) {
      error = "a checkpoint of the model '" + name.toStringRef() + "', not '" + names.model + "'";
      return CheckpointFault::unfit;
    }
    c10::IValue optimizer_name;  // one of before is of sgd
    const std::string optimizer_is =
        archive.try_read("optimizer_name", optimizer_name) ? optimizer_name.toStringRef() : "sgd";
    if (optimizer_is != names.optimizer) {
      error = "a checkpoint of the optimizer '" + optimizer_is + "', not '" + names.optimizer + "'";
      return CheckpointFault::unfit;
    }
    c10::IValue frozen_words;  // a checkpoint of before has none
    if (archive.try_read("frozen_words", frozen_words) &&
        frozen_words.toBool() != names.frozen_words) {
      error = names.frozen_words
                  ? "a checkpoint of a run without --freeze-embedding; leave it out, "
                    "or begin anew without --resume"
                  : "a checkpoint of a run with --freeze-embedding; add it, or begin "
                    "anew without --resume";
      return CheckpointFault::other_options;
    }
    c10::IValue layout;  // a checkpoint of before has none
    if (archive.try_read("layout", layout)) {
      const std::string other = difference(layout.toStringRef(), model);
      if (!other.empty()) {
        error = "a checkpoint that does not fit: " + other;
        return CheckpointFault::unfit;
      }
    }
    progress.epochs = read_int(archive, "epochs");
    progress.steps = read_int(archive, "steps");
    progress.seed = static_cast<std::uint64_t>(read_int(archive, "seed"));
    c10::IValue on_target;  // a checkpoint of before has none
    progress.on_target = archive.try_read("on_target", on_target) ? on_target.toInt() : 0;
    c10::IValue best_loss;
    c10::IValue without_gain;
    progress.best_loss =
        archive.try_read("best_loss", best_loss) ? best_loss.toDouble() : Progress{}.best_loss;
    progress.without_gain =
        archive.try_read("without_gain", without_gain) ? without_gain.toInt() : 0;
    c10::IValue seconds;
    progress.seconds = archive.try_read("seconds", seconds) ? seconds.toDouble() : 0;
    c10::IValue data_checksum;
    c10::IValue data_samples;
    progress.data.reset();
    if (archive.try_read("data_checksum", data_checksum) &&
        archive.try_read("data_samples", data_samples))
      progress.data =
          TrainingSet{static_cast<std::uint32_t>(data_checksum.toInt()), data_samples.toInt()};
    torch::serialize::InputArchive model_archive;
    archive.read("model", model_archive);
    model.load(model_archive);
    torch::serialize::InputArchive optimizer_archive;
    archive.read("optimizer", optimizer_archive);
    optimizer.load(optimizer_archive);
    return CheckpointFault::none;
  } catch (const c10::Error& fault) {
    const std::string text = fault.what_without_backtrace();
    error = "a checkpoint that does not fit: " + text.substr(0, text.find('\n'));
    return CheckpointFault::unfit;
  }
}

}  // namespace hvdrun
