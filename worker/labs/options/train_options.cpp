#include "worker/labs/options/train_options.h"

#include <algorithm>
#include <set>
#include <sstream>
#include <stdexcept>
#include <utility>
#include <vector>

#include <boost/program_options.hpp>

#include "worker/labs/base/train_exit_codes.h"
#include "worker/labs/options/option_rows.h"

namespace hvdrun {
namespace {

namespace po = boost::program_options;

constexpr const char* kUsage =
    "Usage: train [options]\n"
    "       hvdrun -np 4 train [options]\n\n"
    "Trains a model, alone or with other ranks. --list names the models, --describe shows the\n"
    "layers and the recipe of one. scripts/make-dataset makes a set where the real one is not\n"
    "at hand. Numbers in brackets are those of mnist-cnn; every model has its own (--describe).\n"
    "--batch_size is --batch-size, and so on.\n\nOptions";

void require(bool condition, const std::string& text) {
  if (!condition) throw std::invalid_argument(text);
}

// As the labs for other frameworks spell them: --batch_size.
std::vector<std::string> with_hyphens(int argc, const char* const* argv) {
  std::vector<std::string> words;
  for (int i = 1; i < argc; ++i) {
    words.emplace_back(argv[i]);
    std::string& word = words.back();
    if (word.rfind("--", 0) != 0) continue;
    const std::size_t end = std::min(word.find('='), word.size());
    std::replace(word.begin(), word.begin() + static_cast<std::ptrdiff_t>(end), '_', '-');
  }
  return words;
}

po::options_description describe() {
  po::options_description all(kUsage);
  for (const TrainOptionRow& row : option_rows()) {
    if (row.value == nullptr)
      all.add_options()(row.name, row.help.c_str());
    else
      all.add_options()(row.name, po::value<std::string>()->value_name(row.value),
                        row.help.c_str());
  }
  all.add_options()("list", "name the models with their parameters, data and source")("help,h",
                                                                                      "this text");
  return all;
}

// Depth and width, where the model has them.
void check_shape(const ModelInfo& model, const ModelShape& shape) {
  const auto check_one = [&](const char* name, std::int64_t value, std::int64_t own) {
    require(own > 0 || value == 0, std::string("--") + name + ": " + model.name + " has one only");
  };
  check_one("depth", shape.depth, model.shape.depth);
  check_one("width", shape.width, model.shape.width);
  require(!model.classes_of_data || shape.classes == 0,
          std::string("--classes: ") + model.name + " has as many as its data; leave it out");
  check_one("classes", shape.classes, model.shape.classes);
  require(model.shape.dropout > 0 || shape.dropout == 0,
          std::string("--dropout: ") + model.name + " has none");
  const std::string trouble = model.refuse == nullptr ? "" : model.refuse(shape);
  require(trouble.empty(), trouble);
}

// Faults that no option can see alone.
void check(const TrainOptions& options, const std::set<std::string>& given) {
  const std::string& optimizer = options.recipe.optimizer;
  require(given.count("momentum") == 0 || optimizer == "sgd",
          "--momentum is that of sgd; " + optimizer + " has its own");
  for (const char* option :
       {"embedding", "freeze-embedding", "text-column", "label-column", "vocabulary", "words"})
    require(
        given.count(option) == 0 || options.model == "text-nnlm",
        std::string("--") + option + " is that of text-nnlm; " + options.model + " reads no words");
  require(options.shape.words == 0 || options.data.vocabulary + 2 <= options.shape.words,
          "--vocabulary " + std::to_string(options.data.vocabulary) + " needs --words " +
              std::to_string(options.data.vocabulary + 2) + " at least, for row 0 and the others");
  require(given.count("no-cuda") == 0 || given.count("device") == 0,
          "--no-cuda is --device cpu; give one of them");
  for (const char* option : {"commit-steps", "keep-local-batch"})
    require(given.count(option) == 0 || options.elastic,
            std::string("--") + option + " is of --elastic, which is not given");
  require(
      !options.elastic || !options.use_adasum,
      "--elastic keeps the global batch of all ranks, and the step of --use-adasum follows from "
      "the number of ranks; give one of them");
  require(given.count("keep") == 0 || !options.checkpoint_dir.empty(),
          "--keep is of --checkpoint-dir, which is not given");
}

// The model's own values, below what the command line says.
TrainOptions of_model(const std::string& name) {
  const ModelInfo* const model = find_model(name);
  if (model == nullptr)
    throw std::invalid_argument("unknown model '" + name + "'; there is: " + model_names());
  TrainOptions options;
  options.model = name;
  options.data.directory = model->data.directory;
  options.shape = model->shape;
  options.recipe = model->recipe;
  return options;
}

TrainOptions put_together(const po::parsed_options& parsed, const std::string& model_name) {
  TrainOptions options = of_model(model_name);
  std::set<std::string> given;
  for (const auto& option : parsed.options) {
    given.insert(option.string_key);
    for (const TrainOptionRow& row : option_rows())
      if (option.string_key == row.name)
        row.put(options, option.value.empty() ? "" : option.value.front());
  }
  check(options, given);
  const ModelInfo& model = *find_model(model_name);
  check_shape(model, options.shape);
  require(options.data.image_size >= model.smallest_image,
          "--image-size: " + model_name + " takes " + std::to_string(model.smallest_image) +
              " at least, not " + std::to_string(options.data.image_size));
  return options;
}

}  // namespace

ParsedOptions parse_train_options(int argc, const char* const* argv) {
  try {
    const po::options_description described = describe();
    // Anything that is no option is collected, for an error that names it.
    std::vector<std::string> rest;
    po::options_description all;
    all.add(described).add_options()("rest", po::value(&rest));
    po::positional_options_description positions;
    positions.add("rest", -1);
    namespace style = po::command_line_style;
    // No guessing: an option that is added later must not make an abbreviation ambiguous.
    const po::parsed_options parsed = po::command_line_parser(with_hyphens(argc, argv))
                                          .options(all)
                                          .positional(positions)
                                          .style(style::default_style & ~style::allow_guessing)
                                          .run();
    po::variables_map values;
    po::store(parsed, values);
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
    TrainOptions options = put_together(
        parsed, values.count("model") != 0 ? values["model"].as<std::string>() : "mnist-cnn");
    return {std::move(options), exit_ok, {}};
  } catch (const po::error& error) {
    return {std::nullopt, exit_usage,
            std::string("train: ") + error.what() + "; --help lists all options\n"};
  } catch (const std::exception& error) {
    return {std::nullopt, exit_usage, std::string("train: ") + error.what() + "\n"};
  }
}

}  // namespace hvdrun
