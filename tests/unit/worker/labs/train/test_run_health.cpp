// Losses, weights and checkpoints that are no numbers, and the speeds that are told.
#include <cmath>
#include <limits>

#include "tests/unit/worker/hvd/torch/catch_with_torch.h"
#include "tests/unit/worker/labs/data/temporary_folder.h"
#include "worker/labs/checkpoint/checkpoint.h"
#include "worker/labs/checkpoint/checkpoint_folder.h"
#include "worker/labs/report/throughput.h"
#include "worker/labs/train/cudnn_search.h"
#include "worker/labs/train/loss_watch.h"
#include "worker/labs/train/run_health.h"
#include "worker/labs/train/trainer.h"

namespace hvdrun {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Normalises, as what it has seen must not be lost either.
class SmallNet final : public LabModel {
 public:
  SmallNet()
      : norm_(register_module("norm", torch::nn::BatchNorm1d(4))),
        first_(register_module("first", torch::nn::Linear(4, 3))),
        last_(register_module("last", torch::nn::Linear(3, 2))) {}
  torch::Tensor forward(const torch::Tensor& inputs) override {
    torch::Tensor x = first_(norm_(inputs));
    if (roots) x = x.sqrt();
    return torch::log_softmax(last_(x), 1);
  }
  torch::Tensor example(std::int64_t n) const override { return torch::zeros({n, 4}); }

  bool roots = false;  // of negative numbers, too
 private:
  torch::nn::BatchNorm1d norm_;
  torch::nn::Linear first_;
  torch::nn::Linear last_;
};

// Batches of random numbers; that of one step begins with `bad`.
class OneBadBatch final : public Dataset {
 public:
  OneBadBatch(std::size_t bad_step, double bad) : bad_step_(bad_step), bad_(bad) {}
  std::size_t size() const override { return 40; }
  std::int64_t classes() const override { return 2; }
  std::uint32_t checksum() const override { return 0; }
  void begin(Pass) override {
    step_ = 0;
    torch::manual_seed(3);
  }
  std::optional<Batch> next() override {
    Batch batch{torch::randn({8, 4}), torch::randint(2, {8}, torch::kLong)};
    if (step_++ == bad_step_) batch.inputs[0][0] = bad_;
    return batch;
  }

 private:
  std::size_t bad_step_;
  double bad_;
  std::size_t step_ = 0;
};

struct Told {
  std::vector<Trainer::StepResult> steps;
  Score score;
};

Told train_once(SmallNet& net, OneBadBatch& data, const TrainerOptions& options, double lr = 0.1) {
  torch::optim::SGD sgd(net.parameters(), torch::optim::SGDOptions(lr).momentum(0.5));
  // The trainer wants to own it with others.
  Trainer trainer(std::shared_ptr<LabModel>(&net, [](LabModel*) {}), sgd, options);
  Told told;
  Trainer::StepCallbacks callbacks;
  callbacks.report = [&](const Trainer::StepResult& result) { told.steps.push_back(result); };
  told.score = trainer.train_epoch(data, EpochSampler(40, 1, 0), 8, 100, callbacks);
  return told;
}

TEST_CASE("a step that is not finite changes nothing when it is left out", "[nan]") {
  hvd::init();
  const double bad =
      GENERATE(std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity());
  CAPTURE(bad);
  TrainerOptions options;
  for (const bool leaves_out : {false, true}) {
    CAPTURE(leaves_out);
    options.leave_out_not_finite = leaves_out;
    torch::manual_seed(1);
    SmallNet net;
    OneBadBatch data(2, bad);
    const Told told = train_once(net, data, options);
    REQUIRE(told.steps.size() == 5);
    CHECK(std::isfinite(told.steps[1].loss));
    CHECK_FALSE(std::isfinite(told.steps[2].loss));
    CHECK(told.steps[2].left_out == leaves_out);
    CHECK_FALSE(told.steps[1].left_out);
    CHECK(std::isfinite(told.steps[4].loss) == leaves_out);
    CHECK(std::isfinite(told.score.loss) == leaves_out);
    CHECK(told.score.samples == (leaves_out ? 32 : 40));
    CHECK(first_not_finite(net).empty() == leaves_out);
  }
  hvd::shutdown();
}

TEST_CASE("where NaN begins is said with the layer and the operation", "[nan]") {
  hvd::init();
  TrainerOptions options;
  options.trace_nan = true;
  torch::manual_seed(1);
  SmallNet net;
  SECTION("in the batch") {
    OneBadBatch data(1, kNan);
    const Told told = train_once(net, data, options);
    CHECK(told.steps[0].origin.empty());
    CHECK(told.steps[1].origin == "in the batch itself");
  }
  SECTION("behind a layer") {
    net.roots = true;
    OneBadBatch data(100, 0);
    CHECK(train_once(net, data, options).steps[0].origin == "behind the layer first (aten::sqrt)");
  }
  SECTION("in a layer") {
    {
      const torch::NoGradGuard no_grad;
      net.named_parameters()["first.weight"].fill_(3e38);
    }
    OneBadBatch data(100, 0);
    CHECK_THAT(train_once(net, data, options).steps[0].origin,
               StartsWith("in the layer first (aten::"));
  }
  SECTION("in weights that were so before") {
    {
      const torch::NoGradGuard no_grad;
      net.named_parameters()["last.bias"].fill_(kNan);
    }
    OneBadBatch data(100, 0);
    CHECK(train_once(net, data, options).steps[0].origin ==
          "before this step: last.bias is not finite");
  }
  SECTION("by weights that an update has made too large") {
    OneBadBatch data(100, 0);
    const Told told = train_once(net, data, options, 1e38);
    CHECK(std::isfinite(told.steps[0].loss));
    CHECK_FALSE(std::isfinite(told.steps[1].loss));
    CHECK_THAT(told.steps[1].origin, Contains("in the layer "));
  }
  hvd::shutdown();
}

TEST_CASE("the first step of the first rank is told once, then the next one", "[nan]") {
  hvd::init();
  LossWatch watch;
  watch.saw({7, 1, 0, 0.5, 0.1, ""});
  CHECK_FALSE(watch.has_news());
  watch.saw({8, 1, 0, kNan, 0.25, "in the layer first (aten::addmm)"});
  watch.saw({9, 1, 0, -HUGE_VAL, 0.1, ""});
  REQUIRE(watch.has_news());
  const auto bad = watch.first();
  REQUIRE(bad);
  CHECK(describe(*bad) ==
        "epoch 1, step 8: the loss of rank 0 is nan, at learning rate 0.25; it begins in the layer "
        "first (aten::addmm)");
  CHECK(watch.take_count() == 2);
  CHECK(watch.take_count() == 0);
  CHECK_FALSE(watch.has_news());
  CHECK_FALSE(watch.first());
  watch.saw({10, 2, 0, HUGE_VAL, 0.1, ""});
  CHECK(describe(watch.first().value()) ==
        "epoch 2, step 10: the loss of rank 0 is infinite, at learning rate 0.1");
  hvd::shutdown();
}

TEST_CASE("a checkpoint that is not finite is never gone on from", "[nan][checkpoints]") {
  const test::TemporaryFolder folder;
  const CheckpointFolder checkpoints(folder.path(), 5);
  std::string error;
  const auto adam_bytes = [&](const std::function<void(SmallNet&)>& spoil, double gradient) {
    torch::manual_seed(1);
    SmallNet net;
    torch::optim::Adam adam(net.parameters(), torch::optim::AdamOptions(0.1));
    for (torch::Tensor& parameter : net.parameters())
      parameter.mutable_grad() = torch::full_like(parameter, gradient);
    adam.step();
    const torch::NoGradGuard no_grad;
    spoil(net);
    return encode_checkpoint({"small", "adam"}, net, adam, {});
  };
  const std::string good = adam_bytes([](SmallNet&) {}, 1);
  CHECK(is_finite_checkpoint(good, error));
  CHECK(is_finite_checkpoint("no checkpoint", error));
  CHECK(error.empty());
  REQUIRE(checkpoints.write(1, good, error));
  const auto [name, bytes] = GENERATE_COPY(table<std::string, std::string>({
      {"last.weight",
       adam_bytes([](SmallNet& net) { net.named_parameters()["last.weight"][0][0] = kNan; }, 1)},
      {"norm.running_var",
       adam_bytes([](SmallNet& net) { net.named_buffers()["norm.running_var"][0] = HUGE_VAL; }, 1)},
      // Its square is infinite, and the weight stands still for ever.
      {"exp_avg_sq", adam_bytes([](SmallNet&) {}, 1e30)},
  }));
  CAPTURE(name);
  CHECK_FALSE(is_finite_checkpoint(bytes, error));
  CHECK_THAT(error, Contains(name + " is not finite"));
  error.clear();
  REQUIRE(checkpoints.write(2, bytes, error));
  const auto found = find_checkpoint(folder.path(), is_finite_checkpoint, error);
  REQUIRE(found);
  CHECK(found->path == folder / "epoch-000001.ckpt");
  REQUIRE(found->damaged.size() == 1);
  CHECK_THAT(found->damaged[0], Contains("epoch-000002.ckpt: ") && Contains(name));
  CHECK_FALSE(find_checkpoint(folder / "epoch-000002.ckpt", is_finite_checkpoint, error));
  CHECK_THAT(error, StartsWith(folder / "epoch-000002.ckpt: "));
}

TEST_CASE("speeds are of the steps between two lines, and of an epoch without its first",
          "[speed]") {
  using std::chrono::seconds;
  const Throughput::Time start{};
  Throughput speed;
  speed.begin_epoch(start);
  CHECK(speed.of_epoch(start).per_second == 0);
  speed.step(1, 10, start + seconds(20));  // a search
  CHECK(speed.take_interval() == Approx(0.5));
  speed.leave_out_steps_so_far();
  speed.step(2, 10, start + seconds(21));
  speed.step(3, 30, start + seconds(22));
  CHECK(speed.take_interval() == Approx(20));
  CHECK(speed.of_epoch(start + seconds(24)).per_second == Approx(10));
  CHECK(speed.of_epoch(start + seconds(24)).left_out == 1);
  speed.begin_epoch(start + seconds(30));
  speed.step(1, 10, start + seconds(31));
  CHECK(speed.of_epoch(start + seconds(31)).per_second == Approx(10));
  CHECK(speed.of_epoch(start + seconds(31)).left_out == 0);
}

TEST_CASE("cuDNN searches where it is told to, or where the run is long", "[speed]") {
  CHECK_FALSE(search_pays(60));
  CHECK(search_pays(600));
  CHECK_FALSE(CudnnSearch("on", false).is_wanted());
  CHECK_FALSE(CudnnSearch("auto", false).is_open());
  CHECK(CudnnSearch("on", true).is_wanted());
  CHECK_FALSE(CudnnSearch("off", true).is_open());
  CudnnSearch search("auto", true);
  CHECK(search.is_open());
  const CudnnSearch::Time start{};
  CHECK(search.seconds_per_step(20, start) == 0);
  CHECK(search.seconds_per_step(40, start + std::chrono::seconds(10)) == Approx(0.5));
  search.decide(0.5 * 1000);
  CHECK(search.is_wanted());
  CHECK_FALSE(search.is_open());
  const bool before = at::globalContext().benchmarkCuDNN();
  search.allow(true);
  CHECK(at::globalContext().benchmarkCuDNN());
  search.allow(false);  // an odd end of an epoch
  CHECK_FALSE(at::globalContext().benchmarkCuDNN());
  at::globalContext().setBenchmarkCuDNN(before);
}

}  // namespace
}  // namespace hvdrun
