#include "worker/labs/train/loss_watch.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <utility>

#include <hvd/hvd.h>

#include "worker/labs/base/agreement.h"

namespace hvdrun {

std::string describe(const BadStep& bad) {
  char text[160];
  std::snprintf(text, sizeof text,
                "epoch %lld, step %lld: the loss of rank %d is %s, at learning rate %g",
                static_cast<long long>(bad.epoch), static_cast<long long>(bad.step), bad.rank,
                std::isnan(bad.loss) ? "nan" : "infinite", bad.lr);
  return bad.origin.empty() ? text : text + ("; it begins " + bad.origin);
}

void LossWatch::saw(const BadStep& step) {
  if (std::isfinite(step.loss)) return;
  ++count_;
  if (!news_) news_ = step;
}

std::int64_t LossWatch::take_count() { return std::exchange(count_, 0); }

std::optional<BadStep> LossWatch::first() {
  constexpr std::int64_t kNone = std::numeric_limits<std::int64_t>::max();
  std::int64_t key = news_ ? news_->step * hvd::size() + hvd::rank() : kNone;
  hvd::allreduce(&key, &key, 1, hvd::ReduceOp::min);
  const std::optional<BadStep> mine = std::exchange(news_, std::nullopt);
  if (key == kNone) return std::nullopt;
  BadStep bad;
  bad.step = key / hvd::size();
  bad.rank = static_cast<int>(key % hvd::size());
  if (bad.rank == hvd::rank()) {
    bad = *mine;
    bad.rank = hvd::rank();
  }
  std::array<double, 3> numbers{bad.loss, bad.lr, static_cast<double>(bad.epoch)};
  hvd::broadcast(numbers.data(), numbers.size(), bad.rank);
  bad.loss = numbers[0];
  bad.lr = numbers[1];
  bad.epoch = static_cast<std::int64_t>(numbers[2]);
  broadcast_bytes(bad.origin, bad.rank);
  return bad;
}

}  // namespace hvdrun
