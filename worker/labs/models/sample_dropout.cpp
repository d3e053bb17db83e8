#include "worker/labs/models/sample_dropout.h"

#include <algorithm>
#include <cmath>

#include <torch/nn/functional/dropout.h>

namespace hvdrun {
namespace {

constexpr std::int64_t kBits = 32;
constexpr std::int64_t kMask = (std::int64_t{1} << kBits) - 1;

struct Draws {
  at::Tensor keys;          // [N], of 32 bits; undefined: the generator draws
  std::int64_t layers = 0;  // that have drawn in this pass
};

Draws g_draws;

// Numbers of 32 bits in tensors of 64, so no product is too large. Each bit of the result depends
// on each of x: the multiply-xorshift hash that C. Wellons found by search.
at::Tensor mixed(at::Tensor x) {
  x = x.bitwise_xor(x.bitwise_right_shift(16));
  x = (x * 0x21f0aaad).bitwise_and(kMask);
  x = x.bitwise_xor(x.bitwise_right_shift(15));
  x = (x * 0x735a2d97).bitwise_and(kMask);
  return x.bitwise_xor(x.bitwise_right_shift(15));
}

// [N, count] of 32 bits.
at::Tensor draw(std::int64_t count) {
  const at::Tensor layer = mixed((g_draws.keys + 0x9e3779b9 * ++g_draws.layers).bitwise_and(kMask));
  const at::Tensor places = mixed(at::arange(count, g_draws.keys.options()));
  return mixed(layer.unsqueeze(1).bitwise_xor(places.unsqueeze(0)));
}

}  // namespace

void draw_dropout_by_sample(const std::vector<std::uint64_t>& samples, at::Device device) {
  at::Tensor keys = at::empty({static_cast<std::int64_t>(samples.size())}, at::kLong);
  std::transform(samples.begin(), samples.end(), keys.data_ptr<std::int64_t>(),
                 [](std::uint64_t sample) {
                   return static_cast<std::int64_t>(sample ^ sample >> kBits) & kMask;
                 });
  g_draws = {samples.empty() ? at::Tensor() : keys.to(device), 0};
}

torch::Tensor SampleDropoutImpl::forward(const torch::Tensor& input) {
  if (!is_training() || p_ == 0) return input;
  if (!g_draws.keys.defined())
    return what_ == What::channels ? at::feature_dropout(input, p_, true)
                                   : at::dropout(input, p_, true);
  TORCH_CHECK(input.size(0) == g_draws.keys.size(0), "dropout by sample: a batch of ",
              input.size(0), " samples, but ", g_draws.keys.size(0), " were said");
  std::vector<std::int64_t> shape = input.sizes().vec();
  if (what_ == What::channels) std::fill(shape.begin() + 2, shape.end(), 1);
  std::int64_t count = 1;
  for (std::size_t i = 1; i < shape.size(); ++i) count *= shape[i];
  const auto limit = static_cast<std::int64_t>(std::ldexp(p_, kBits));
  const double scale = p_ < 1 ? 1 / (1 - p_) : 0;
  return input * draw(count).ge(limit).to(input.scalar_type()).view(shape).mul_(scale);
}

}  // namespace hvdrun
