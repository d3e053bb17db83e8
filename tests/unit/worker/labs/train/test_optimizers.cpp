#include <array>
#include <cmath>
#include <sstream>

#include "tests/unit/worker/hvd/torch/catch_with_torch.h"
#include "worker/labs/train/optimizers.h"

namespace hvdrun {
namespace {

using Weights = std::vector<double>;
using BothWeights = std::array<Weights, 2>;

// Two layers of weights that pull toward other targets with other strengths: gradients that change
// as the weights do, and are calculated without torch.
BothWeights gradients_at(const BothWeights& weights) {
  BothWeights gradients = weights;
  for (std::size_t layer = 0; layer < 2; ++layer)
    for (std::size_t i = 0; i < weights[layer].size(); ++i) {
      const double target = layer == 0 ? 0.3 * static_cast<double>(i) : -2;
      gradients[layer][i] = (layer == 0 ? 1.5 : 0.02) * (weights[layer][i] - target);
    }
  return gradients;
}

BothWeights first_weights() { return {Weights{1, -0.5, 2, 0.25}, Weights{0.125, 3}}; }

double norm_of(const Weights& layer) {
  double sum = 0;
  for (const double x : layer) sum += x * x;
  return std::sqrt(sum);
}

// From the papers, in double precision.
BothWeights lamb_reference(int steps, double lr, double decay) {
  BothWeights w = first_weights();
  BothWeights m{Weights(4), Weights(2)};
  BothWeights v = m;
  for (int t = 1; t <= steps; ++t) {
    const BothWeights g = gradients_at(w);
    for (std::size_t l = 0; l < 2; ++l) {
      Weights r(w[l].size());
      for (std::size_t i = 0; i < r.size(); ++i) {
        m[l][i] = 0.9 * m[l][i] + 0.1 * g[l][i];
        v[l][i] = 0.999 * v[l][i] + 0.001 * g[l][i] * g[l][i];
        const double mean = m[l][i] / (1 - std::pow(0.9, t));
        const double square = v[l][i] / (1 - std::pow(0.999, t));
        r[i] = mean / (std::sqrt(square) + 1e-6) + decay * w[l][i];
      }
      const double ratio = norm_of(w[l]) / norm_of(r);
      for (std::size_t i = 0; i < r.size(); ++i) w[l][i] -= lr * ratio * r[i];
    }
  }
  return w;
}

BothWeights novograd_reference(int steps, double lr, double decay) {
  BothWeights w = first_weights();
  BothWeights m{Weights(4), Weights(2)};
  std::array<double, 2> v{};
  for (int t = 1; t <= steps; ++t) {
    const BothWeights g = gradients_at(w);
    for (std::size_t l = 0; l < 2; ++l) {
      const double square = norm_of(g[l]) * norm_of(g[l]);
      v[l] = t == 1 ? square : 0.98 * v[l] + 0.02 * square;
      for (std::size_t i = 0; i < w[l].size(); ++i) {
        m[l][i] = 0.95 * m[l][i] + g[l][i] / (std::sqrt(v[l]) + 1e-8) + decay * w[l][i];
        w[l][i] -= lr * m[l][i];
      }
    }
  }
  return w;
}

// As torch has it: the first gradient is the first momentum.
BothWeights sgd_reference(int steps, double lr, double decay, double momentum) {
  BothWeights w = first_weights();
  BothWeights m{Weights(4), Weights(2)};
  for (int t = 1; t <= steps; ++t) {
    const BothWeights g = gradients_at(w);
    for (std::size_t l = 0; l < 2; ++l)
      for (std::size_t i = 0; i < w[l].size(); ++i) {
        m[l][i] = momentum * m[l][i] + g[l][i] + decay * w[l][i];
        w[l][i] -= lr * m[l][i];
      }
  }
  return w;
}

BothWeights adam_reference(int steps, double lr, double decay) {
  BothWeights w = first_weights();
  BothWeights m{Weights(4), Weights(2)};
  BothWeights v = m;
  for (int t = 1; t <= steps; ++t) {
    const BothWeights gradients = gradients_at(w);
    for (std::size_t l = 0; l < 2; ++l)
      for (std::size_t i = 0; i < w[l].size(); ++i) {
        const double g = gradients[l][i] + decay * w[l][i];
        m[l][i] = 0.9 * m[l][i] + 0.1 * g;
        v[l][i] = 0.999 * v[l][i] + 0.001 * g * g;
        const double square = v[l][i] / (1 - std::pow(0.999, t));
        w[l][i] -= lr * m[l][i] / (1 - std::pow(0.9, t)) / (std::sqrt(square) + 1e-8);
      }
  }
  return w;
}

std::vector<torch::Tensor> tensors_of(const BothWeights& layers) {
  std::vector<torch::Tensor> parameters;
  for (const Weights& layer : layers)
    parameters.push_back(
        torch::tensor(layer, torch::kDouble).to(torch::kFloat).set_requires_grad(true));
  return parameters;
}

BothWeights weights_of(const std::vector<torch::Tensor>& parameters) {
  BothWeights layers;
  for (std::size_t l = 0; l < 2; ++l)
    for (std::int64_t i = 0; i < parameters[l].numel(); ++i)
      layers[l].push_back(parameters[l][i].item<double>());
  return layers;
}

void run_steps(torch::optim::Optimizer& optimizer, int steps) {
  auto& parameters = optimizer.param_groups().front().params();
  for (int step = 0; step < steps; ++step) {
    const BothWeights gradients = gradients_at(weights_of(parameters));
    for (std::size_t l = 0; l < 2; ++l)
      parameters[l].mutable_grad() = torch::tensor(gradients[l], torch::kDouble).to(torch::kFloat);
    optimizer.step();
  }
}

Recipe recipe_of(const std::string& name, double decay = 0, double momentum = 0) {
  Recipe recipe;
  recipe.optimizer = name;
  recipe.weight_decay = decay;
  recipe.momentum = momentum;
  return recipe;
}

void check_same(const BothWeights& got, const BothWeights& expected) {
  for (std::size_t l = 0; l < 2; ++l)
    for (std::size_t i = 0; i < got[l].size(); ++i)
      CHECK(got[l][i] == Approx(expected[l][i]).epsilon(2e-5).margin(2e-6));
}

TEST_CASE("layer-wise optimizers step as their papers say", "[optimizers]") {
  const std::string name = GENERATE("lamb", "novograd");
  const double decay = GENERATE(0.0, 0.01);
  constexpr double kRate = 0.02;
  for (const int steps : {1, 2, 25}) {
    CAPTURE(name, decay, steps);
    const auto optimizer =
        make_optimizer(recipe_of(name, decay), tensors_of(first_weights()), kRate);
    run_steps(*optimizer, steps);
    const BothWeights expected = name == "lamb" ? lamb_reference(steps, kRate, decay)
                                                : novograd_reference(steps, kRate, decay);
    check_same(weights_of(optimizer->param_groups().front().params()), expected);
  }
}

TEST_CASE("SGD and Adam add the weight decay to the gradient", "[optimizers]") {
  const std::string name = GENERATE("sgd", "adam");
  const double decay = GENERATE(0.0, 5e-2);
  constexpr double kRate = 0.02;
  for (const int steps : {1, 2, 25}) {
    CAPTURE(name, decay, steps);
    const auto optimizer =
        make_optimizer(recipe_of(name, decay, 0.9), tensors_of(first_weights()), kRate);
    run_steps(*optimizer, steps);
    check_same(weights_of(optimizer->param_groups().front().params()),
               name == "sgd" ? sgd_reference(steps, kRate, decay, 0.9)
                             : adam_reference(steps, kRate, decay));
  }
}

TEST_CASE("what a loaded optimizer brought along gives way to the recipe", "[optimizers]") {
  const std::string name = GENERATE("sgd", "adam", "lamb", "novograd");
  CAPTURE(name);
  const auto saved = make_optimizer(recipe_of(name, 0.5, 0.25), tensors_of(first_weights()), 0.1);
  std::ostringstream bytes;
  torch::serialize::OutputArchive out;
  saved->save(out);
  out.save_to(bytes);
  const Recipe recipe = recipe_of(name, 5e-2, 0.9);
  const auto loaded = make_optimizer(recipe, tensors_of(first_weights()), 0.02);
  std::istringstream stream(bytes.str());
  torch::serialize::InputArchive in;
  in.load_from(stream);
  loaded->load(in);
  set_options(*loaded, recipe, 0.02);
  const auto fresh = make_optimizer(recipe, tensors_of(first_weights()), 0.02);
  run_steps(*loaded, 3);
  run_steps(*fresh, 3);
  CHECK(weights_of(loaded->param_groups().front().params()) ==
        weights_of(fresh->param_groups().front().params()));
}

TEST_CASE("a layer of zeros, and one without a gradient, are no trouble", "[optimizers]") {
  const std::string name = GENERATE("lamb", "novograd");
  std::vector<torch::Tensor> parameters = {torch::zeros({3}).set_requires_grad(true),
                                           torch::ones({2}).set_requires_grad(true),
                                           torch::ones({2}).set_requires_grad(true)};
  const auto optimizer = make_optimizer(recipe_of(name), parameters, 0.1);
  parameters[0].mutable_grad() = torch::ones({3});
  parameters[1].mutable_grad() = torch::zeros({2});
  optimizer->step();
  CHECK(parameters[0].isfinite().all().item<bool>());
  CHECK(parameters[0].lt(0).all().item<bool>());
  CHECK(parameters[1].equal(torch::ones({2})));
  CHECK(parameters[2].equal(torch::ones({2})));
}

TEST_CASE("layer-wise optimizers go on from what they saved", "[optimizers]") {
  const std::string name = GENERATE("lamb", "novograd");
  const auto unbroken = make_optimizer(recipe_of(name), tensors_of(first_weights()), 0.02);
  run_steps(*unbroken, 5);
  std::ostringstream bytes;
  torch::serialize::OutputArchive out;
  unbroken->save(out);
  out.save_to(bytes);
  const auto resumed = make_optimizer(
      recipe_of(name), tensors_of(weights_of(unbroken->param_groups().front().params())), 0.02);
  std::istringstream stream(bytes.str());
  torch::serialize::InputArchive in;
  in.load_from(stream);
  resumed->load(in);
  run_steps(*unbroken, 5);
  run_steps(*resumed, 5);
  CHECK(weights_of(resumed->param_groups().front().params()) ==
        weights_of(unbroken->param_groups().front().params()));
  // Without what was saved it would be another way.
  const auto fresh = make_optimizer(recipe_of(name), tensors_of(first_weights()), 0.02);
  run_steps(*fresh, 5);
  CHECK(weights_of(fresh->param_groups().front().params()) !=
        weights_of(unbroken->param_groups().front().params()));
}

TEST_CASE("torch's own optimizers have their names", "[optimizers]") {
  const auto parameters = tensors_of(first_weights());
  const auto sgd = make_optimizer(recipe_of("sgd", 0.125, 0.75), parameters, 0.5);
  const auto& options =
      static_cast<torch::optim::SGDOptions&>(sgd->param_groups().front().options());
  CHECK(options.lr() == 0.5);
  CHECK(options.momentum() == 0.75);
  CHECK(options.weight_decay() == 0.125);
  const auto adam = make_optimizer(recipe_of("adam"), parameters, 0.25);
  CHECK(adam->param_groups().front().options().get_lr() == 0.25);
  CHECK_THROWS(make_optimizer(recipe_of("other"), parameters, 0.5));
}

}  // namespace
}  // namespace hvdrun
