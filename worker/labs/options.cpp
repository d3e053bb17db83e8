#include "worker/labs/options.h"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <stdexcept>
#include <vector>

#include <boost/program_options.hpp>

#include "worker/labs/exit_codes.h"

namespace hvdrun {
namespace {

namespace po = boost::program_options;

void require(bool condition, const std::string& text) {
  if (!condition) throw std::invalid_argument(text);
}

void check_range(const char* name, std::int64_t value, std::int64_t low, std::int64_t high) {
  require(value >= low && value <= high, std::string("--") + name + " takes " +
                                             std::to_string(low) + " to " + std::to_string(high) +
                                             ", not " + std::to_string(value));
}

std::string number(double value) {
  std::ostringstream text;
  text << value;
  return text.str();
}

// From 0 to 1, without the 1.
void check_fraction(const char* name, double value) {
  require(value >= 0 && value < 1,
          std::string("--") + name + " takes a number from 0 to below 1, not " + number(value));
}

void check(const TrainOptions& options) {
  const Recipe& recipe = options.recipe;
  check_range("epochs", recipe.epochs, 1, 1'000'000);
  check_range("batch-size", recipe.batch_size, 1, 1'000'000);
  check_range("warmup-epochs", recipe.warmup_epochs, 0, 1'000'000);
  check_range("patience", recipe.patience, 1, 1'000'000);
  check_range("max-steps", options.max_steps, 0, 1'000'000'000'000);
  require(std::isfinite(recipe.lr) && recipe.lr > 0,
          "--lr takes a number above 0, not " + number(recipe.lr));
  check_fraction("momentum", recipe.momentum);
  check_fraction("target-accuracy", recipe.target_accuracy);
  check_fraction("dropout", options.shape.dropout);
}

// Depth and width, where the model has them.
void check_shape(const ModelInfo& model, const ModelShape& shape) {
  const auto check_one = [&](const char* name, std::int64_t value, std::int64_t own) {
    if (own > 0) return check_range(name, value, 1, 1000);
    require(value == 0, std::string("--") + name + ": " + model.name + " has one only");
  };
  check_one("depth", shape.depth, model.shape.depth);
  check_one("width", shape.width, model.shape.width);
  const std::string trouble = model.refuse == nullptr ? "" : model.refuse(shape);
  require(trouble.empty(), trouble);
}

// What the command line says is written over what the model says itself.
struct Given {
  std::optional<double> lr, momentum, dropout, target_accuracy;
  std::optional<std::int64_t> epochs, batch_size, warmup_epochs, patience, depth, width;
  std::optional<std::string> data_dir, optimizer;

  void put_into(TrainOptions& options, const ModelInfo& model) const {
    options.data.directory = data_dir.value_or(model.data.directory);
    options.shape = {dropout.value_or(model.shape.dropout), depth.value_or(model.shape.depth),
                     width.value_or(model.shape.width)};
    Recipe& recipe = options.recipe;
    recipe = model.recipe;
    recipe.optimizer = optimizer.value_or(recipe.optimizer);
    const auto& known = optimizer_names();
    require(std::find(known.begin(), known.end(), recipe.optimizer) != known.end(),
            "unknown optimizer '" + recipe.optimizer + "'; there is: sgd, adam, novograd, lamb");
    require(!momentum || recipe.optimizer == "sgd",
            "--momentum is that of sgd; " + recipe.optimizer + " has its own");
    recipe.lr = lr.value_or(recipe.lr);
    recipe.momentum = momentum.value_or(recipe.momentum);
    recipe.target_accuracy = target_accuracy.value_or(recipe.target_accuracy);
    recipe.epochs = epochs.value_or(recipe.epochs);
    recipe.batch_size = batch_size.value_or(recipe.batch_size);
    recipe.warmup_epochs = warmup_epochs.value_or(recipe.warmup_epochs);
    recipe.patience = patience.value_or(recipe.patience);
  }
};

template <typename T>
auto* optional_value(std::optional<T>& to, const char* name) {
  return po::value<T>()->value_name(name)->notifier([&to](const T& value) { to = value; });
}

po::options_description describe(TrainOptions& to, Given& given, std::int64_t& seed) {
  po::options_description all(
      "Usage: train [options]\n"
      "       hvdrun -np 4 train [options]\n\n"
      "Trains a model, alone or with other ranks. --list names the models; what some of them are\n"
      "fed with cannot be read yet, but --describe shows their layers. scripts/make-dataset makes\n"
      "a set where the real one is not at hand. Numbers in brackets are those of mnist-cnn; every\n"
      "model has its own (docs/labs).\n\nOptions");
  all.add_options()("model", po::value(&to.model)->value_name("NAME"),
                    "mnist-cnn (default) or another of --list")(
      "list", "name the models with their parameters, data and source")(
      "describe", po::bool_switch(&to.describe),
      "show the layers of the model, what each gives, and its parameters")(
      "data-dir", optional_value(given.data_dir, "DIR"), "folder of the files (data/mnist)")(
      "epochs", optional_value(given.epochs, "N"),
      "passes over the training set in all, those of a resumed checkpoint included (3)")(
      "batch-size", optional_value(given.batch_size, "N"), "images per rank and step (32)")(
      "lr", optional_value(given.lr, "X"),
      "learning rate of one rank; it is multiplied by the number of ranks (0.01)")(
      "optimizer", optional_value(given.optimizer, "NAME"),
      "sgd (default), adam, novograd or lamb")("momentum", optional_value(given.momentum, "X"),
                                               "of sgd (0.5)")(
      "warmup-epochs", optional_value(given.warmup_epochs, "N"),
      "from the rate of one rank to that of all in a straight line over N epochs (0)")(
      "target-accuracy", optional_value(given.target_accuracy, "X"),
      "stop when the test images' accuracy, from 0 to 1, is above X; 0: never (0)")(
      "patience", optional_value(given.patience, "N"), "after so many epochs in a row (2)")(
      "dropout", optional_value(given.dropout, "P"), "probability, 0 turns it off (0.5)")(
      "depth", optional_value(given.depth, "N"), "layers of wrn-16-10: 10, 16, 22 and so on")(
      "width", optional_value(given.width, "N"), "factor of its channels")(
      "seed", po::value(&seed)->value_name("N"),
      "of initial weights, order of images and dropout (1); a resumed checkpoint brings its own")(
      "max-steps", po::value(&to.max_steps)->value_name("N"), "stop after N steps in all")(
      "checkpoint", po::value(&to.checkpoint)->value_name("FILE"),
      "write this file after every whole epoch")("resume",
                                                 po::value(&to.resume)->value_name("FILE"),
                                                 "go on from a checkpoint, of any number of ranks")(
      "loss-log", po::value(&to.loss_log)->value_name("FILE"),
      "write the loss of every step, averaged over the ranks, one per line")(
      "metrics-file", po::value(&to.metrics_file)->value_name("FILE"),
      "write a line of JSON for every epoch; a resumed run goes on in it")(
      "log-dir", po::value(&to.log_dir)->value_name("DIR"),
      "write the same as an event file for TensorBoard")("help,h", "this text");
  return all;
}

}  // namespace

ParsedOptions parse_train_options(int argc, const char* const* argv) {
  TrainOptions options;
  Given given;
  std::int64_t seed = 1;
  const po::options_description described = describe(options, given, seed);
  try {
    // Anything that is no option is collected, for an error that names it.
    std::vector<std::string> rest;
    po::options_description all;
    all.add(described).add_options()("rest", po::value(&rest));
    po::positional_options_description positions;
    positions.add("rest", -1);
    namespace style = po::command_line_style;
    po::variables_map values;
    // No guessing: an option that is added later must not make an abbreviation ambiguous.
    po::store(po::command_line_parser(argc, argv)
                  .options(all)
                  .positional(positions)
                  .style(style::default_style & ~style::allow_guessing)
                  .run(),
              values);
    po::notify(values);
    if (values.count("help") != 0) {
      std::ostringstream text;
      text << described
           << "\nOMP_NUM_THREADS says how many threads a rank computes with; hvdrun "
              "sets it.\n";
      return {std::nullopt, exit_ok, text.str()};
    }
    if (values.count("list") != 0) return {std::nullopt, exit_ok, list_models()};
    require(rest.empty(), "unexpected argument '" + (rest.empty() ? "" : rest.front()) + "'");
    require(seed >= 0, "--seed takes a number from 0, not " + std::to_string(seed));
    options.seed = static_cast<std::uint64_t>(seed);
    require(find_model(options.model) != nullptr,
            "unknown model '" + options.model + "'; there is: " + model_names());
    const ModelInfo& model = *find_model(options.model);
    given.put_into(options, model);
    check(options);
    check_shape(model, options.shape);
    if (!options.describe && model.data.open == nullptr) {
      // No line about --help: nothing that it lists would help.
      return {std::nullopt, exit_usage,
              "train: " + options.model +
                  ": its data pipeline is not there yet; --describe shows the model\n"};
    }
    return {options, exit_ok, {}};
  } catch (const std::exception& error) {
    return {std::nullopt, exit_usage,
            std::string("train: ") + error.what() + "\ntrain: --help lists all options\n"};
  }
}

}  // namespace hvdrun
