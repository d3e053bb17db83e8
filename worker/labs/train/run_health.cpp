#include "worker/labs/train/run_health.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <hvd/hvd.h>

#include "worker/labs/base/agreement.h"
#include "worker/labs/base/train_exit_codes.h"

namespace hvdrun {

std::string on_nan(const TrainOptions& options) {
  if (!options.on_nan.empty()) return options.on_nan;
  return options.synthetic ? "warn" : "stop";
}

std::string first_not_finite(const torch::nn::Module& model) {
  const torch::NoGradGuard no_grad;
  std::vector<std::string> names;
  std::vector<at::Tensor> finite;
  const auto look_at = [&](const auto& tensors) {
    for (const auto& item : tensors) {
      if (!item.value().is_floating_point()) continue;
      names.push_back(item.key());
      finite.push_back(at::isfinite(item.value()).all());
    }
  };
  look_at(model.named_parameters());
  look_at(model.named_buffers());
  if (finite.empty()) return {};
  const at::Tensor all = at::stack(finite).to(at::kCPU);
  for (std::size_t i = 0; i < names.size(); ++i)
    if (!all[static_cast<std::int64_t>(i)].item<bool>()) return names[i];
  return {};
}

RunHealth::RunHealth(const TrainOptions& options, TrainConsole& console)
    : policy_(on_nan(options)), traces_(options.trace_nan), console_(console) {}

void RunHealth::saw(const BadStep& step, bool left_out) {
  watch_.saw(step);
  if (left_out) ++left_out_;
}

void RunHealth::tell() {
  const std::optional<BadStep> bad = watch_.first();
  if (!bad) return;
  if (policy_ == "stop") stop(describe(*bad));
  if (!told_) console_.warn(describe(*bad) + (leaves_out() ? "; the step is left out" : ""));
  told_ = true;
}

void RunHealth::end_epoch(std::int64_t epoch, std::int64_t steps, const torch::nn::Module& model) {
  const std::string name = first_not_finite(model);
  const std::int64_t mine = watch_.take_count();
  std::array<std::int64_t, 3> all{has_news() ? 1 : 0, leaves_out() ? left_out_ : mine,
                                  name.empty() ? 0 : 1};
  left_out_ = 0;
  hvd::allreduce(all.data(), all.data(), all.size(), hvd::ReduceOp::max);
  const auto [news, count, is_bad] = all;
  if (news != 0) tell();
  told_ = false;
  const std::string of = "epoch " + std::to_string(epoch) + ": ";
  const std::string steps_text = std::to_string(count) + " of " + std::to_string(steps) + " steps";
  if (leaves_out() && count > 0) {
    if (count >= steps) stop(of + "no step could be made, none was finite");
    console_.warn(of + steps_text + " were left out: loss or gradients were not finite");
  } else if (count > 1) {
    console_.warn(of + "the loss was not finite in " + steps_text);
  }
  is_sound_ = is_bad == 0;
  if (is_sound_) return;
  const std::string text = of + (name.empty() ? "a weight of another rank" : name) +
                           " is not finite after its last step";
  if (policy_ == "stop") stop(text);
  console_.warn(text + "; no checkpoint of it is written");
}

void RunHealth::judge(const std::string& what, const Score& score) {
  if (std::isfinite(score.loss)) return;
  const std::string text = "the " + what + (std::isnan(score.loss) ? " is nan" : " is infinite");
  console_.warn(text);
  if (bad_score_.empty()) bad_score_ = text;
}

void RunHealth::end_run() const {
  if (policy_ != "stop" || bad_score_.empty()) return;
  throw Quit(exit_diverged, {});  // said already
}

void RunHealth::stop(const std::string& text) const {
  std::string cure = leaves_out() ? "" : "; --on-nan warn or skip goes on";
  if (!traces_)
    cure += std::string(cure.empty() ? "; " : ", ") + "--trace-nan says where it begins";
  throw Quit(exit_diverged, hvd::rank() == 0 ? text + ": stopped" + cure : std::string());
}

}  // namespace hvdrun
