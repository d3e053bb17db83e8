#include "worker/labs/options.h"

#include <cmath>
#include <sstream>
#include <stdexcept>
#include <vector>

#include <boost/program_options.hpp>

#include "worker/labs/exit_codes.h"
#include "worker/labs/models/registry.h"

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
  require(find_model(options.model) != nullptr,
          "unknown model '" + options.model + "'; there is: " + model_names());
  check_range("epochs", options.epochs, 1, 1'000'000);
  check_range("batch-size", options.batch_size, 1, 1'000'000);
  check_range("max-steps", options.max_steps, 0, 1'000'000'000'000);
  require(std::isfinite(options.lr) && options.lr > 0,
          "--lr takes a number above 0, not " + number(options.lr));
  check_fraction("momentum", options.momentum);
  check_fraction("dropout", options.dropout);
}

po::options_description describe(TrainOptions& to, std::int64_t& seed) {
  po::options_description all(
      "Usage: train [options]\n"
      "       hvdrun -np 4 train [options]\n\n"
      "Trains a model on images in the format of MNIST, alone or with other ranks. What other\n"
      "models of --list are fed with cannot be read yet; --describe shows their layers.\n"
      "scripts/make-dataset makes a set where the real one is not at hand.\n\nOptions");
  all.add_options()("model", po::value(&to.model)->value_name("NAME"),
                    "mnist-cnn (default) or another of --list")(
      "list", "name the models with their parameters, data and source")(
      "describe", po::bool_switch(&to.describe),
      "show the layers of the model, what each gives, and its parameters")(
      "data-dir", po::value(&to.data_dir)->value_name("DIR"),
      "folder of the four files, plain or .gz (data/mnist)")(
      "epochs", po::value(&to.epochs)->value_name("N"),
      "passes over the training set in all, those of a resumed checkpoint included (3)")(
      "batch-size", po::value(&to.batch_size)->value_name("N"), "images per rank and step (32)")(
      "lr", po::value(&to.lr)->value_name("X"),
      "learning rate of one rank; it is multiplied by the number of ranks (0.01)")(
      "momentum", po::value(&to.momentum)->value_name("X"), "of SGD (0.5)")(
      "dropout", po::value(&to.dropout)->value_name("P"),
      "probability, 0 turns it off (as the model has it: 0.5 for mnist-cnn)")(
      "seed", po::value(&seed)->value_name("N"),
      "of initial weights, order of images and dropout (1); a resumed checkpoint brings its own")(
      "max-steps", po::value(&to.max_steps)->value_name("N"), "stop after N steps in all")(
      "checkpoint", po::value(&to.checkpoint)->value_name("FILE"),
      "write this file after every whole epoch")("resume",
                                                 po::value(&to.resume)->value_name("FILE"),
                                                 "go on from a checkpoint, of any number of ranks")(
      "loss-log", po::value(&to.loss_log)->value_name("FILE"),
      "write the loss of every step, averaged over the ranks, one per line")("help,h", "this text");
  return all;
}

}  // namespace

ParsedOptions parse_train_options(int argc, const char* const* argv) {
  TrainOptions options;
  std::int64_t seed = 1;
  const po::options_description described = describe(options, seed);
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
    check(options);
    const ModelInfo& model = *find_model(options.model);
    if (values.count("dropout") == 0) options.dropout = model.dropout;
    if (!options.describe && !model.data.has_pipeline) {
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
