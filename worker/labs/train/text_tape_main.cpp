// train-tape: the text lab with a loop of one's own, in the way of a gradient tape. The model, the
// data and their batches are those of `train --model text-nnlm`; what becomes of the gradients
// stands here, in order, without a trainer and without a DistributedOptimizer.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include <hvd/torch.h>

#include "common/base/printable.h"
#include "worker/labs/base/agreement.h"
#include "worker/labs/base/cpu_kernels.h"
#include "worker/labs/base/kept_memory.h"
#include "worker/labs/base/train_exit_codes.h"
#include "worker/labs/batches/sampler.h"
#include "worker/labs/batches/text_batches.h"
#include "worker/labs/models/model.h"
#include "worker/labs/train/loss_watch.h"

namespace {

using namespace hvdrun;

constexpr std::size_t kStep = 128;  // sentences of all ranks, or the most below that they divide
constexpr double kRate = 0.004;     // of all ranks
constexpr std::uint64_t kSeed = 1;

constexpr const char* kUsage =
    "usage: train-tape [--text-column NAME] [--label-column NAME] [DIR [EPOCHS]], with "
    "DIR/sentences.csv and 1 to 1000";

struct TapeOptions {
  DataRequest data;
  int epochs = 4;

  TapeOptions() {
    data.directory = "data/text";
    data.seed = kSeed;
  }
};

bool parse_epochs(const std::string& word, int& epochs) {
  const char* const end = word.data() + word.size();
  const auto [stop, trouble] = std::from_chars(word.data(), end, epochs);
  return trouble == std::errc() && stop == end && epochs > 0 && epochs <= 1000;
}

// Names of columns, as "--text-column NAME" or "--text-column=NAME", and DIR and EPOCHS, as far as
// they are given.
bool parse(const std::vector<std::string>& words, TapeOptions& options) {
  std::size_t places = 0;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    const std::size_t equals = word.find('=');
    const std::string name = word.substr(0, equals);
    if (name == "--text-column" || name == "--label-column") {
      if (equals == std::string::npos && i + 1 == words.size()) return false;
      const std::string value = equals == std::string::npos ? words[++i] : word.substr(equals + 1);
      (name == "--text-column" ? options.data.text_column : options.data.label_column) = value;
    } else if (places == 0 && word.rfind('-', 0) != 0) {
      options.data.directory = word;
      ++places;
    } else if (places == 1 && parse_epochs(word, options.epochs)) {
      ++places;
    } else {
      return false;
    }
  }
  return true;
}

// The share of the sentences that the model understands, over all ranks.
double accuracy(LabModel& model, Dataset& data) {
  const torch::NoGradGuard no_grad;
  double sums[] = {0, 0};
  data.begin(shard_pass(data.size(), 256, hvd::rank(), hvd::size()));
  while (const auto batch = data.next()) {
    const torch::Tensor taken = model.predict(model.forward(batch->inputs));
    sums[0] += taken.eq(batch->labels).sum().item<double>();
    sums[1] += static_cast<double>(batch->labels.size(0));
  }
  hvd::allreduce(sums, sums, 2, hvd::ReduceOp::sum);
  return sums[0] / sums[1];
}

// The gradient of the words' vectors as the optimizer wants it, dense, in memory that is kept: a
// new tensor of 64 MB for each step would be pages of zeros from the kernel, most of them never
// used.
class WordGradient {
 public:
  // `vectors` has it as its gradient from now on.
  explicit WordGradient(const torch::Tensor& vectors) : dense_(torch::zeros_like(vectors)) {
    vectors.mutable_grad() = dense_;
  }

  // `rows` is coalesced: the rows of the words that a step has touched; all others are zero.
  void set(const torch::Tensor& rows) {
    const torch::NoGradGuard no_grad;
    if (set_.defined()) dense_.index_fill_(0, set_, 0);
    set_ = rows.indices()[0];
    dense_.index_copy_(0, set_, rows.values());
  }

 private:
  torch::Tensor dense_;
  torch::Tensor set_;  // numbers of the rows that are not zero
};

// On all ranks.
[[noreturn]] void stop_on(const std::optional<BadStep>& bad) {
  const std::string text = bad ? describe(*bad) : "the sum of the losses is not finite";
  throw Quit(exit_diverged, hvd::rank() == 0 ? text + ": stopped" : std::string());
}

void run(const TapeOptions& options) {
  std::string error;
  auto data = open_sentences(options.data, error);
  agree(error, exit_no_input);
  if (hvd::rank() == 0)
    for (const std::string& note : data->notes)
      std::fprintf(stderr, "train-tape: %s\n", printable(note, note.size()).c_str());
  const std::size_t of_rank = kStep / static_cast<std::size_t>(hvd::size());
  const std::size_t of_all = of_rank * static_cast<std::size_t>(hvd::size());
  if (of_rank == 0) error = std::to_string(kStep) + " ranks at most, one sentence each";
  if (data->train->size() < kStep)
    error = options.data.directory + ": fewer sentences than the " + std::to_string(kStep) +
            " of one step";
  agree(error, exit_usage);

  // Every rank begins elsewhere; the broadcast below is what makes them one.
  torch::manual_seed(kSeed + static_cast<std::uint64_t>(hvd::rank()));
  const auto model = make_model("text-nnlm");
  // The vectors of words, of which a step touches few, and the layers, which it touches whole.
  model->make_word_gradients_sparse();
  const torch::Tensor vectors = model->word_parameters().at(0);
  std::vector<torch::Tensor> variables = {vectors};
  for (const torch::Tensor& parameter : model->parameters())
    if (!parameter.is_same(vectors)) variables.push_back(parameter);
  WordGradient word_gradient(vectors);
  torch::optim::Adam adam(variables, kRate);
  LossWatch watch;
  bool first = true;
  for (int epoch = 0; epoch < options.epochs; ++epoch) {
    const EpochSampler order(data->train->size(), kSeed, static_cast<std::uint64_t>(epoch));
    data->train->begin(order.pass(of_all, order.steps(of_all), hvd::rank(), hvd::size()));
    double loss_sum = 0;
    int steps = 0;
    while (const auto batch = data->train->next()) {
      const torch::Tensor mean = model->loss(model->forward(batch->inputs), batch->labels);
      // The remainder of the division makes some ranks' parts one sentence shorter: each sentence
      // counts alike.
      const torch::Tensor loss =
          mean * order.share(static_cast<std::size_t>(steps), of_all, hvd::rank(), hvd::size());
      // The gradients of the loss with regard to the variables, averaged over the ranks: of the
      // vectors only those rows travel that a rank has touched.
      const std::vector<torch::Tensor> own = torch::autograd::grad({loss}, variables);
      word_gradient.set(hvd::sparse_allreduce(own[0]));
      const std::vector<torch::Tensor> of_layers =
          hvd::grouped_allreduce({own.begin() + 1, own.end()});
      for (std::size_t i = 0; i < of_layers.size(); ++i)
        variables[i + 1].mutable_grad() = of_layers[i];
      adam.step();
      if (first) {
        // After the first step, when all that an optimizer makes late is there.
        hvd::broadcast_parameters(*model, 0);
        hvd::broadcast_optimizer_state(adam, 0);
        first = false;
      }
      const double value = loss.item<double>();
      loss_sum += value;
      ++steps;
      watch.saw({steps, epoch + 1, hvd::rank(), value, kRate, {}});
    }
    const double mean = hvd::metric_average(loss_sum / steps);
    if (!std::isfinite(mean)) stop_on(watch.first());
    const double understood = accuracy(*model, *data->validation);
    if (hvd::rank() != 0) continue;
    std::printf("epoch %d/%d  loss %.4f  validation accuracy %.2f %%\n", epoch + 1, options.epochs,
                mean, 100 * understood);
    std::fflush(stdout);  // under hvdrun it is a pipe
  }
  const double understood = accuracy(*model, *data->test);
  if (hvd::rank() == 0) std::printf("test accuracy %.2f %%\n", 100 * understood);
}

int report(const std::string& text, int code) {
  if (!text.empty()) std::fprintf(stderr, "train-tape: %s\n", printable(text, text.size()).c_str());
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  TapeOptions options;
  int code = exit_ok;
  try {
    keep_freed_memory();
    avoid_wrong_kernels();
    hvd::init();
    const std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
    if (!words.empty() && (words[0] == "--help" || words[0] == "-h")) {
      if (hvd::rank() == 0) std::printf("%s; unless given data/text and 4\n", kUsage);
    } else {
      agree(parse(words, options) ? "" : kUsage, exit_usage);
      run(options);
    }
  } catch (const Quit& quit) {
    code = report(quit.what(), quit.exit_code());
    try {
      hvd::barrier();  // the one that says why is heard before anybody leaves
    } catch (const std::exception&) {
    }
  } catch (const std::exception& trouble) {
    const std::string text = trouble.what();
    code = report(text.substr(0, text.find('\n')), exit_failed);  // LibTorch appends a backtrace
  }
  hvd::shutdown();
  return code;
}
