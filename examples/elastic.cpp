// The elastic exercise of the Horovod courses: a net for MNIST that trains on while hosts come and
// go.
// g++ -std=c++17 -O2 elastic.cpp $(pkg-config --cflags --libs hvd_torch) -o elastic
// hvdrun -np 2 --min-np 1 --max-np 8 --host-discovery-script ./hosts.sh ./elastic data/mnist 5
//
// Rank 0 leaves checkpoints and a table of losses below $OCI__SYNC_DIR/artifacts.
#include <array>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <hvd/torch.h>

namespace {

constexpr double kRankRate = 0.01;  // of one rank
constexpr std::size_t kBatch = 64;

// A file of MNIST: two bytes of 0, a type, the number of dimensions, their sizes, then bytes.
torch::Tensor read_idx(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::array<unsigned char, 4> word{};
  const auto next = [&] { return bool(file.read(reinterpret_cast<char*>(word.data()), 4)); };
  if (!next()) throw std::runtime_error(path + ": no such file of MNIST");
  std::vector<std::int64_t> sizes(word[3]);
  for (std::int64_t& size : sizes) {
    next();
    size = word[0] << 24 | word[1] << 16 | word[2] << 8 | word[3];
  }
  torch::Tensor values = torch::empty(sizes, torch::kUInt8);
  file.read(static_cast<char*>(values.data_ptr()), values.numel());
  return values;
}

struct Data {
  explicit Data(const std::string& prefix)
      : images(read_idx(prefix + "-images-idx3-ubyte").unsqueeze(1).to(torch::kFloat) / 255),
        labels(read_idx(prefix + "-labels-idx1-ubyte").to(torch::kLong)) {}
  torch::Tensor images;
  torch::Tensor labels;
};

struct DigitsImpl : torch::nn::Module {
  torch::Tensor forward(torch::Tensor x) {
    x = torch::relu(torch::max_pool2d(conv1(x), 2));
    x = torch::relu(torch::max_pool2d(conv2(x), 2));
    return output(torch::relu(hidden(x.flatten(1))));
  }
  torch::nn::Conv2d conv1 = register_module("conv1", torch::nn::Conv2d(1, 10, 5));
  torch::nn::Conv2d conv2 = register_module("conv2", torch::nn::Conv2d(10, 20, 5));
  torch::nn::Linear hidden = register_module("hidden", torch::nn::Linear(320, 50));
  torch::nn::Linear output = register_module("output", torch::nn::Linear(50, 10));
};
TORCH_MODULE(Digits);

std::filesystem::path artifacts() {
  const char* const folder = std::getenv("OCI__SYNC_DIR");  // NOLINT(concurrency-mt-unsafe)
  return std::filesystem::path(folder != nullptr ? folder : ".") / "artifacts";
}

// Nobody ever sees half a checkpoint.
void save(const Digits& net, torch::optim::SGD& sgd, std::int64_t epoch) {
  const auto path = artifacts() / "ckpts" / ("checkpoint-" + std::to_string(epoch) + ".pt");
  std::filesystem::create_directories(path.parent_path());
  torch::serialize::OutputArchive archive;
  torch::serialize::OutputArchive optimizer;
  net->save(archive);
  sgd.save(optimizer);
  archive.write("optimizer", optimizer);
  archive.save_to(path.string() + ".new");
  std::filesystem::rename(path.string() + ".new", path);
}

void log_loss(std::int64_t epoch, double loss) {
  std::filesystem::create_directories(artifacts() / "logs");
  std::ofstream(artifacts() / "logs" / "loss.csv", std::ios::app) << epoch << ',' << loss << '\n';
}

void run(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : "data/mnist";
  const std::int64_t epochs = argc > 2 ? std::atoi(argv[2]) : 5;
  // Nobody waits for what a new process does before elastic::run().
  torch::set_num_threads(1);
  torch::manual_seed(42);
  const Data train(folder + "/train");
  const Data test(folder + "/t10k");
  Digits net;
  // Rank and GPU: libhvd has chosen one of this host's for this rank.
  hvd::init();
  const torch::Device device =
      hvd::gpu() < 0 ? torch::Device(torch::kCPU)
                     : torch::Device(torch::kCUDA, static_cast<c10::DeviceIndex>(hvd::gpu()));
  net->to(device);
  // A rate that grows with the ranks, and with what they do together.
  torch::optim::SGD sgd(net->parameters(),
                        torch::optim::SGDOptions(kRankRate * hvd::size()).momentum(0.5));
  // All that a rank that comes must know.
  const auto count = static_cast<std::size_t>(train.labels.size(0));
  hvd::elastic::ElasticSampler sampler(count, /*shuffle=*/true, /*seed=*/42);
  std::int64_t epoch = 0;
  std::array<double, 2> sums{};  // of the epoch: losses, and samples
  hvd::elastic::TorchState state(net.get(), &sgd);
  state.add("epoch", epoch).add("sums", sums).add(sampler);
  // Other ranks than before: the rate is scaled again.
  state.register_reset_callback([&] {
    for (auto& group : sgd.param_groups()) group.options().set_lr(kRankRate * hvd::size());
  });

  const auto train_on = [&] {
    std::printf("rank %d of %d, from sample %zu of epoch %" PRId64 "\n", hvd::rank(), hvd::size(),
                sampler.processed(), epoch + 1);
    std::fflush(stdout);
    hvd::DistributedOptimizer optimizer(sgd);
    for (; epoch < epochs; ++epoch) {
      net->train();
      while (const auto part =
                 sampler.next(kBatch * static_cast<std::size_t>(hvd::elastic::contributors()))) {
        const torch::Tensor rows = torch::tensor(std::vector<std::int64_t>(
            part->empty() ? std::vector<std::int64_t>{0}
                          : std::vector<std::int64_t>(part->begin(), part->end())));
        const torch::Tensor labels = train.labels.index_select(0, rows).to(device);
        const torch::Tensor loss = torch::cross_entropy_loss(
            net->forward(train.images.index_select(0, rows).to(device)), labels);
        // A new rank's part counts nothing in its first step, and an empty one never.
        const double weight = sampler.weight();
        const double samples = weight > 0 ? static_cast<double>(part->size()) : 0;
        optimizer.zero_grad();
        (loss * weight).backward();
        optimizer.step();
        std::array<double, 2> more{samples > 0 ? loss.item<double>() * samples : 0, samples};
        hvd::allreduce(more.data(), more.data(), more.size(), hvd::ReduceOp::sum);
        for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += more[i];
        sampler.record();
        state.commit();
      }
      if (hvd::rank() == 0) {
        std::printf("epoch %" PRId64 ": loss %.4f over %.0f samples\n", epoch + 1,
                    sums[0] / sums[1], sums[1]);
        std::fflush(stdout);
        log_loss(epoch + 1, sums[0] / sums[1]);
        save(net, sgd, epoch + 1);
      }
      sums = {};
      sampler.set_epoch(static_cast<std::uint64_t>(epoch) + 1);
    }
  };
  hvd::elastic::RunOptions options;
  options.overlap = true;
  hvd::elastic::run(state, train_on, options);

  // Each rank its part of the test, and the right ones of all.
  net->eval();
  const torch::NoGradGuard no_grad;
  const std::int64_t all = test.labels.size(0);
  const std::int64_t begin = all * hvd::rank() / hvd::size();
  const std::int64_t end = all * (hvd::rank() + 1) / hvd::size();
  const torch::Tensor guesses = net->forward(test.images.slice(0, begin, end).to(device)).argmax(1);
  double right = guesses.eq(test.labels.slice(0, begin, end).to(device)).sum().item<double>();
  hvd::allreduce(&right, &right, 1, hvd::ReduceOp::sum);
  if (hvd::rank() == 0)
    std::printf("accuracy: %.2f %% of %" PRId64 "\n", 100 * right / static_cast<double>(all), all);
  hvd::shutdown();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
