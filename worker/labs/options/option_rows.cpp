#include "worker/labs/options/option_rows.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <iomanip>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "worker/labs/base/file_formats.h"
#include "worker/labs/data/text/vocabulary.h"

namespace hvdrun {
namespace {

const std::vector<std::string>& on_nan_words() {
  static const std::vector<std::string> words = {"stop", "warn", "skip"};
  return words;
}

const std::vector<std::string>& cudnn_search_words() {
  static const std::vector<std::string> words = {"auto", "on", "off"};
  return words;
}

// The member that an option is written to.
template <typename T>
using Member = T& (*)(TrainOptions& of);

std::string shown(double value, int digits = 6) {
  std::ostringstream text;
  text << std::setprecision(digits) << value;
  return text.str();
}

[[noreturn]] void refuse(const std::string& name, const std::string& takes,
                         const std::string& value) {
  throw std::invalid_argument("--" + name + " takes " + takes + ", not " + value);
}

template <typename T>
T number(const char* name, const std::string& word) {
  T value{};
  const char* const end = word.data() + word.size();
  const auto [stop, trouble] = std::from_chars(word.data(), end, value);
  if (trouble == std::errc() && stop == end && !word.empty()) return value;
  throw std::invalid_argument("the argument ('" + word + "') for option '--" + name +
                              "' is invalid");
}

template <typename T>
const T& value_of(Member<T> member, const TrainOptions& options) {
  // Members are named once, by functions that give them for writing.
  return member(const_cast<TrainOptions&>(options));
}

// From `low` to `high`.
TrainOptionRow whole(const char* name, Member<std::int64_t> to, std::int64_t low, std::int64_t high,
                     std::string help) {
  return {name, "N", std::move(help),
          [=](TrainOptions& options, const std::string& word) {
            const auto value = number<std::int64_t>(name, word);
            if (value < low || value > high)
              refuse(name, std::to_string(low) + " to " + std::to_string(high),
                     std::to_string(value));
            to(options) = value;
          },
          [=](const TrainOptions& options) { return std::to_string(value_of(to, options)); }};
}

TrainOptionRow fraction(const char* name, const char* value_name, Member<double> to,
                        bool (*fits)(double), const char* takes, std::string help) {
  return {name, value_name, std::move(help),
          [=](TrainOptions& options, const std::string& word) {
            const auto value = number<double>(name, word);
            if (!fits(value)) refuse(name, takes, shown(value));
            to(options) = value;
          },
          [=](const TrainOptions& options) { return shown(value_of(to, options), 17); }};
}

TrainOptionRow fraction(const char* name, const char* value_name, Member<double> to,
                        std::string help) {
  return fraction(
      name, value_name, to, [](double value) { return value >= 0 && value < 1; },
      "a number from 0 to below 1", std::move(help));
}

// One of a few words.
TrainOptionRow choice(const char* name, Member<std::string> to,
                      const std::vector<std::string>& words, std::string help) {
  return {name, "NAME", std::move(help),
          [=](TrainOptions& options, const std::string& word) {
            if (std::find(words.begin(), words.end(), word) == words.end()) {
              std::string text = std::string("unknown ") + name + " '" + word + "'; there is: ";
              for (const std::string& known : words)
                text.append(&known == &words.front() ? "" : ", ").append(known);
              throw std::invalid_argument(text);
            }
            to(options) = word;
          },
          [=](const TrainOptions& options) { return value_of(to, options); }};
}

// The name of something that is written or read: ranks agree in whether it is, not in its name.
TrainOptionRow file(const char* name, const char* value_name, Member<std::string> to,
                    std::string help) {
  return {name, value_name, std::move(help),
          [=](TrainOptions& options, const std::string& word) { to(options) = word; },
          [=](const TrainOptions& options) -> std::string {
            return value_of(to, options).empty() ? "-" : "+";
          }};
}

// The same, where a name can promise what will not be in the file.
TrainOptionRow file_of(const FileFormat& format, const char* name, const char* value_name,
                       Member<std::string> to, std::string help) {
  TrainOptionRow row = file(name, value_name, to, std::move(help));
  row.put = [=, &format](TrainOptions& options, const std::string& word) {
    const std::string trouble = other_format(format, word);
    if (!trouble.empty()) throw std::invalid_argument(std::string("--") + name + " " + trouble);
    to(options) = word;
  };
  return row;
}

// `is_on` is null where another option's row has the value.
TrainOptionRow flag(const char* name, std::string help, void (*turn_on)(TrainOptions&),
                    bool (*is_on)(const TrainOptions&)) {
  TrainOptionRow row{name, nullptr, std::move(help),
                     [=](TrainOptions& options, const std::string&) { turn_on(options); }, nullptr};
  if (is_on != nullptr)
    row.agreed = [=](const TrainOptions& options) { return is_on(options) ? "+" : "-"; };
  return row;
}

constexpr std::int64_t kMany = 1'000'000;

}  // namespace

const std::vector<TrainOptionRow>& option_rows() {
  using To = TrainOptions;
  static const std::vector<TrainOptionRow> rows = {
      // parse_train_options has found the model before any row is put.
      {"model", "NAME", "mnist-cnn (default) or another of --list", [](To&, const std::string&) {},
       nullptr},
      flag(
          "describe", "show the layers of the model, what each gives, and its parameters",
          [](To& to) { to.describe = true; }, nullptr),
      {"data-dir", "DIR", "folder of the files (data/mnist)",
       [](To& to, const std::string& word) { to.data.directory = word; }, nullptr},
      whole(
          "epochs", [](To & to) -> auto& { return to.recipe.epochs; }, 1, kMany,
          "passes over the training set in all, those of a resumed checkpoint included (10)"),
      whole(
          "batch-size", [](To & to) -> auto& { return to.recipe.batch_size; }, 1, kMany,
          "images per rank and step (64)"),
      fraction(
          "lr", "X", [](To & to) -> auto& { return to.recipe.lr; },
          [](double value) { return std::isfinite(value) && value > 0; }, "a number above 0",
          "learning rate of one rank; it is multiplied by the number of ranks (0.01)"),
      choice(
          "optimizer", [](To & to) -> auto& { return to.recipe.optimizer; }, optimizer_names(),
          "sgd (default), adam, novograd or lamb"),
      fraction(
          "momentum", "X", [](To & to) -> auto& { return to.recipe.momentum; }, "of sgd (0.5)"),
      fraction(
          "weight-decay", "X", [](To & to) -> auto& { return to.recipe.weight_decay; },
          [](double value) { return std::isfinite(value) && value >= 0; }, "a number from 0",
          "times each weight, added to its gradient, or with lamb and novograd to the step that "
          "they make of it; wrn-16-10 has a penalty of its own besides "
          "(0)"),
      whole(
          "warmup-epochs", [](To & to) -> auto& { return to.recipe.warmup_epochs; }, 0, kMany,
          "from the rate of one rank to that of all in a straight line over N epochs (0)"),
      fraction(
          "target-accuracy", "X", [](To & to) -> auto& { return to.recipe.target_accuracy; },
          "stop when the test images' accuracy, from 0 to 1, is above X; 0: never (0)"),
      whole(
          "patience", [](To & to) -> auto& { return to.recipe.patience; }, 1, kMany,
          "after so many epochs in a row (2)"),
      whole(
          "validation-passes", [](To & to) -> auto& { return to.recipe.validation_passes; }, 1, 100,
          "over the validation set after each epoch, all ranks together (1)"),
      fraction(
          "dropout", "P", [](To & to) -> auto& { return to.shape.dropout; },
          "probability, 0 turns it off (0.5)"),
      whole(
          "depth", [](To & to) -> auto& { return to.shape.depth; }, 1, 1000,
          "layers of wrn-16-10: 10, 16, 22 and so on"),
      whole(
          "width", [](To & to) -> auto& { return to.shape.width; }, 1, 1000,
          "factor of its channels; of resnet50, alexnet-owt and artists-resnet channels of the "
          "first "
          "layer"),
      whole(
          "classes", [](To & to) -> auto& { return to.shape.classes; }, 2, kMany,
          "of resnet50 and alexnet-owt"),
      whole(
          "image-size", [](To & to) -> auto& { return to.data.image_size; }, 32, 1024,
          "rows and columns of what a model sees of a photograph (224)"),
      choice(
          "dct-method", [](To & to) -> auto& { return to.data.dct_method; }, {"fast", "accurate"},
          "how JPEGs are decoded: accurate (default) or fast"),
      whole(
          "data-threads", [](To & to) -> auto& { return to.data.data_threads; }, 0, 1024,
          "that decode images for a rank; 0: of its share of the cores a quarter, with a GPU all "
          "but one (0)"),
      choice(
          "bad-data", [](To & to) -> auto& { return to.data.bad_data; }, {"stop", "skip"},
          "images that cannot be read: stop (default) names them and ends with 66, at the end "
          "where "
          "the test meets them first; skip takes others in training and leaves them out of the "
          "test"),
      {"text-column", "NAME", "of text-nnlm's CSV or TSV file: the sentences (text)",
       [](To& to, const std::string& word) { to.data.text_column = word; },
       [](const To& from) { return from.data.text_column; }},
      {"label-column", "NAME", "the labels, any two values (label)",
       [](To& to, const std::string& word) { to.data.label_column = word; },
       [](const To& from) { return from.data.label_column; }},
      whole(
          "vocabulary", [](To & to) -> auto& { return to.data.vocabulary; }, 0, kMaxVocabulary,
          "the N most frequent words have a vector of their own, the others share the rest by a "
          "hash, as all words do with 0 (0)"),
      whole(
          "words", [](To & to) -> auto& { return to.shape.words; }, 1024, kWordNumbers,
          "rows of text-nnlm's table of word vectors, row 0 for no word (131072): with fewer a "
          "step is faster, and more words share one"),
      file(
          "embedding", "FILE", [](To & to) -> auto& { return to.embedding; },
          "text-nnlm begins with these vectors: a word and 128 numbers in each line"),
      {"freeze-embedding", nullptr, "and does not train them",
       [](To& to, const std::string&) { to.freeze_embedding = true; },
       [](const To& from) { return std::to_string(static_cast<int>(from.freeze_embedding)); }},
      flag(
          "sparse-embedding",
          "gradients of text-nnlm's vectors travel as the rows that a step has touched",
          [](To& to) { to.sparse_embedding = true; },
          [](const To& from) { return from.sparse_embedding; }),
      choice(
          "dtype", [](To & to) -> auto& { return to.dtype; }, {"fp32", "fp16", "bf16", "fp64"},
          "what the model calculates in: fp32 (default), bf16, fp16 with loss scaling on a GPU, or "
          "fp64, in which runs can be compared"),
      choice(
          "data-format", [](To & to) -> auto& { return to.data_format; }, {"NCHW", "NHWC"},
          "how images lie in memory: channel by channel (NCHW, default) or pixel by pixel"),
      {"seed", "N",
       "of initial weights, order of samples, dropout and the samples held back for validation "
       "(42); a resumed checkpoint brings its own",
       [](To& to, const std::string& word) {
         const auto value = number<std::int64_t>("seed", word);
         if (value < 0) refuse("seed", "a number from 0", std::to_string(value));
         to.recipe.seed = static_cast<std::uint64_t>(value);
       },
       [](const To& from) { return std::to_string(from.recipe.seed); }},
      whole(
          "max-steps", [](To & to) -> auto& { return to.max_steps; }, 0, 1'000'000'000'000,
          "stop after N steps in all; the epoch that they cut short is told of as a whole one"),
      flag(
          "elastic",
          "go on when ranks are lost, under hvdrun --min-np; the global batch stays that of all "
          "ranks",
          [](To& to) { to.elastic = true; }, [](const To& from) { return from.elastic; }),
      flag(
          "keep-local-batch",
          "with --elastic: the batch of a rank stays instead, and the rate follows the ranks",
          [](To& to) { to.keep_local_batch = true; },
          [](const To& from) { return from.keep_local_batch; }),
      whole(
          "commit-steps", [](To & to) -> auto& { return to.commit_steps; }, 1, kMany,
          "with --elastic: steps between two commits, which a loss goes back to (10)"),
      file(
          "checkpoint", "FILE", [](To & to) -> auto& { return to.checkpoint; },
          "write this file after every whole epoch, over the one of before"),
      file(
          "checkpoint-dir", "DIR", [](To & to) -> auto& { return to.checkpoint_dir; },
          "write a checkpoint of its own there after every whole epoch"),
      whole(
          "keep", [](To & to) -> auto& { return to.keep; }, 1, kMany,
          "keep the newest N in --checkpoint-dir (5)"),
      file(
          "resume", "PATH", [](To & to) -> auto& { return to.resume; },
          "go on from a checkpoint, of any number of ranks, or from the newest of a folder"),
      whole(
          "test-batch-size", [](To & to) -> auto& { return to.recipe.test_batch_size; }, 1, kMany,
          "test images per rank and step (1000)"),
      whole(
          "log-interval", [](To & to) -> auto& { return to.recipe.log_interval; }, 0, kMany,
          "print loss, averaged over the ranks, and speed every N steps; 0: after epochs only "
          "(10)"),
      choice(
          "device", [](To & to) -> auto& { return to.device; }, device_names(),
          "auto (default): the GPU where LibTorch can use one; cpu or cuda"),
      flag(
          "no-cuda", "the same as --device cpu", [](To& to) { to.device = "cpu"; }, nullptr),
      choice(
          "cudnn-search", [](To & to) -> auto& { return to.cudnn_search; }, cudnn_search_words(),
          "on a GPU: try cuDNN's algorithms for each convolution and keep the fastest, up to half "
          "a "
          "minute; auto (default): where the run is long enough to win it back"),
      choice(
          "on-nan", [](To & to) -> auto& { return to.on_nan; }, on_nan_words(),
          "when a loss or a weight is NaN or infinite: stop with the code 90 (default; warn with "
          "--synthetic), warn, or skip the step; a checkpoint of such weights is never written"),
      flag(
          "trace-nan", "say in which layer it begins; a step takes several times as long",
          [](To& to) { to.trace_nan = true; }, [](const To& from) { return from.trace_nan; }),
      flag(
          "synthetic", "random numbers instead of files, to measure speed",
          [](To& to) { to.synthetic = true; }, [](const To& from) { return from.synthetic; }),
      flag(
          "fp16-allreduce", "gradients travel as 16 bits", [](To& to) { to.fp16_allreduce = true; },
          [](const To& from) { return from.fp16_allreduce; }),
      flag(
          "sync-batch-norm",
          "normalise over the batches of all ranks, so that they compute what one process does",
          [](To& to) { to.sync_batch_norm = true; },
          [](const To& from) { return from.sync_batch_norm; }),
      flag(
          "no-augment", "training images as they are: no crops, flips, shifts or colours",
          [](To& to) { to.augment = false; }, [](const To& from) { return !from.augment; }),
      flag(
          "use-adasum",
          "combine what the ranks' steps have changed adaptively; --lr is then not multiplied by "
          "the ranks, on GPUs by those of a host",
          [](To& to) { to.use_adasum = true; }, [](const To& from) { return from.use_adasum; }),
      file(
          "loss-log", "FILE", [](To & to) -> auto& { return to.loss_log; },
          "write the loss of every step, averaged over the ranks, one per line"),
      file_of(
          metrics_format(), "metrics-file", "FILE",
          [](To & to) -> auto& { return to.metrics_file; },
          "write a line of JSON for every epoch; a resumed run goes on in it"),
      file(
          "log-dir", "DIR", [](To & to) -> auto& { return to.log_dir; },
          "write the same as an event file for TensorBoard"),
      file_of(
          plot_format(), "plot", "FILE.svg", [](To & to) -> auto& { return to.plot; },
          "draw loss and accuracy of this run's epochs, on training and test images"),
      file_of(
          report_format(), "report", "FILE.csv", [](To & to) -> auto& { return to.report; },
          "at the end write how well each class is found, and what it was taken for (tabs for "
          ".tsv)"),
  };
  return rows;
}

std::string agreed_options(const TrainOptions& options) {
  std::string text = options.model;
  for (const TrainOptionRow& row : option_rows())
    if (row.agreed) text.append(" ").append(row.agreed(options));
  return text;
}

}  // namespace hvdrun
