#include <algorithm>
#include <sstream>

#include "tests/unit/worker/hvd/torch/catch_with_torch.h"
#include "worker/labs/base/file_formats.h"
#include "worker/labs/base/train_exit_codes.h"
#include "worker/labs/models/registry.h"
#include "worker/labs/options/option_rows.h"
#include "worker/labs/options/train_options.h"

namespace hvdrun {
namespace {

ParsedOptions parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "train");
  return parse_train_options(static_cast<int>(arguments.size()), arguments.data());
}

TEST_CASE("options have the defaults of the example", "[options]") {
  const auto parsed = parse({});
  REQUIRE(parsed.options);
  CHECK(parsed.options->model == "mnist-cnn");
  CHECK(parsed.options->checkpoint.empty());
  CHECK(parsed.options->data.directory == "data/mnist");
  CHECK(parsed.options->recipe.target_accuracy == 0);
  CHECK(parsed.options->recipe.optimizer == "sgd");
}

TEST_CASE("every option is read", "[options]") {
  const auto parsed = parse({"--model=mnist-linear",
                             "--data-dir",
                             "d",
                             "--epochs",
                             "7",
                             "--batch-size",
                             "16",
                             "--lr",
                             "0.5",
                             "--momentum",
                             "0.9",
                             "--optimizer",
                             "sgd",
                             "--warmup-epochs",
                             "4",
                             "--target-accuracy",
                             "0.75",
                             "--patience",
                             "3",
                             "--dropout",
                             "0",
                             "--seed",
                             "42",
                             "--max-steps",
                             "50",
                             "--checkpoint",
                             "c",
                             "--resume",
                             "r",
                             "--loss-log",
                             "l",
                             "--metrics-file",
                             "m",
                             "--log-dir",
                             "t"});
  INFO(parsed.text);
  REQUIRE(parsed.options);
  CHECK(parsed.options->model == "mnist-linear");
  CHECK(parsed.options->data.directory == "d");
  CHECK(parsed.options->recipe.epochs == 7);
  CHECK(parsed.options->recipe.batch_size == 16);
  CHECK(parsed.options->recipe.lr == 0.5);
  CHECK(parsed.options->recipe.momentum == 0.9);
  CHECK(parsed.options->shape.dropout == 0);
  CHECK(parsed.options->recipe.warmup_epochs == 4);
  CHECK(parsed.options->recipe.target_accuracy == 0.75);
  CHECK(parsed.options->recipe.patience == 3);
  CHECK(parsed.options->recipe.seed == 42);
  CHECK(parsed.options->max_steps == 50);
  CHECK(parsed.options->checkpoint == "c");
  CHECK(parsed.options->resume == "r");
  CHECK(parsed.options->loss_log == "l");
  CHECK(parsed.options->metrics_file == "m");
  CHECK(parsed.options->log_dir == "t");
}

TEST_CASE("underscores are hyphens in names of options, not in values", "[options]") {
  const auto parsed = parse({"--data_dir", "a_b", "--batch_size=8", "--loss_log=c_d"});
  INFO(parsed.text);
  REQUIRE(parsed.options);
  CHECK(parsed.options->data.directory == "a_b");
  CHECK(parsed.options->recipe.batch_size == 8);
  CHECK(parsed.options->loss_log == "c_d");
}

TEST_CASE("the switches of the MNIST example, and what belongs together", "[options]") {
  const auto parsed =
      parse({"--test-batch-size", "100", "--log-interval", "10", "--no-cuda", "--fp16-allreduce",
             "--use-adasum", "--synthetic", "--checkpoint-dir", "c", "--keep", "3", "--plot", "p"});
  INFO(parsed.text);
  REQUIRE(parsed.options);
  CHECK(parsed.options->recipe.test_batch_size == 100);
  CHECK(parsed.options->recipe.log_interval == 10);
  CHECK(parsed.options->device == "cpu");
  CHECK(parsed.options->fp16_allreduce);
  CHECK(parsed.options->use_adasum);
  CHECK(parsed.options->synthetic);
  CHECK(parsed.options->checkpoint_dir == "c");
  CHECK(parsed.options->keep == 3);
  CHECK(parsed.options->plot == "p");
  const auto usual = parse({});
  CHECK(usual.options->device == "auto");
  CHECK(usual.options->keep == 5);
  CHECK_FALSE(usual.options->use_adasum);
  CHECK_FALSE(usual.options->synthetic);
  // Without files every model runs.
  CHECK(parse({"--model", "resnet50", "--synthetic"}).options);
}

TEST_CASE("a name that promises nothing else is the user's choice", "[options]") {
  for (const char* name : {"p", "p.svg", "P.SVG", "a.png/p", ".png", "png", "p.", "/dev/stdout",
                           "/dev/fd/3", "p.1", "p.svg.old"}) {
    CAPTURE(name);
    const auto parsed = parse({"--plot", name});
    REQUIRE(parsed.options);
    CHECK(parsed.options->plot == name);
  }
  for (const char* name : {"r", "r.csv", "r.tsv", "r.txt", "/dev/stdout"})
    CHECK(parse({"--report", name}).options);
  for (const char* name : {"m", "m.json", "m.jsonl", "m.log", "/dev/stdout"})
    CHECK(parse({"--metrics-file", name}).options);
  CHECK(extension_of("a.b/c.TsV") == "tsv");
  CHECK(extension_of("a.b/c").empty());
}

TEST_CASE("ranks must agree in what they compute and in which files there are", "[options]") {
  const auto agreed = [](std::vector<const char*> arguments) {
    return agreed_options(*parse(std::move(arguments)).options);
  };
  const std::string usual = agreed({});
  CHECK(agreed({"--lr", "0.01", "--data-dir", "elsewhere"}) == usual);
  CHECK(agreed({"--lr", "0.02"}) != usual);
  CHECK(agreed({"--seed", "2"}) != usual);
  CHECK(agreed({"--model", "mnist-linear"}) != usual);
  CHECK(agreed({"--checkpoint", "a"}) != usual);
  CHECK(agreed({"--use-adasum"}) != agreed({"--fp16-allreduce"}));
  CHECK(agreed({"--no-cuda"}) == agreed({"--device", "cpu"}));
  CHECK(agreed({"--checkpoint", "a"}) == agreed({"--checkpoint", "b"}));
  CHECK(agreed({"--checkpoint", "a"}) != agreed({"--loss-log", "a"}));
}

TEST_CASE("help is no error and names every option", "[options]") {
  const auto parsed = parse({"--help"});
  CHECK_FALSE(parsed.options);
  CHECK(parsed.exit_code == exit_ok);
  for (const char* name : {"--list", "--describe", "--help"})
    CHECK_THAT(parsed.text, Catch::Matchers::Contains(name));
  CHECK(option_rows().size() > 40);
  for (const auto& row : option_rows())
    CHECK_THAT(parsed.text, Catch::Matchers::Contains("--" + std::string(row.name)));
}

TEST_CASE("the list has a line for each model, with what it is fed and where it is from",
          "[options]") {
  const auto parsed = parse({"--list"});
  CHECK_FALSE(parsed.options);
  CHECK(parsed.exit_code == exit_ok);
  std::istringstream lines(parsed.text);
  std::string line;
  REQUIRE(std::getline(lines, line));
  CHECK_THAT(line, Catch::Matchers::StartsWith("model ") && Catch::Matchers::EndsWith(" source"));
  for (const ModelInfo& model : models()) {
    REQUIRE(std::getline(lines, line));
    CHECK(line.rfind(std::string(model.name) + " ", 0) == 0);
    CHECK_THAT(line, Catch::Matchers::Contains(" " + std::to_string(model.parameters) + "  "));
    CHECK_THAT(line, Catch::Matchers::Contains(model.data.name));
    CHECK_THAT(line, Catch::Matchers::EndsWith(model.source));
  }
  CHECK_FALSE(std::getline(lines, line));
}

TEST_CASE("options of sentences are those of the model that reads them", "[options]") {
  const auto described = parse({"--model", "resnet50", "--describe"});
  REQUIRE(described.options);
  CHECK(described.options->describe);
  CHECK_FALSE(parse({}).options->describe);
  const auto text = parse({"--model", "text-nnlm", "--text-column", "review", "--embedding", "f"});
  REQUIRE(text.options);
  CHECK(text.options->data.text_column == "review");
  CHECK(text.options->recipe.stops_on_loss);
  CHECK(text.options->recipe.optimizer == "adam");
  const auto refused = parse({"--freeze-embedding"});
  CHECK_FALSE(refused.options);
  CHECK(refused.exit_code == exit_usage);
  CHECK_THAT(refused.text, Catch::Matchers::StartsWith("train: --freeze-embedding is that of "
                                                       "text-nnlm; mnist-cnn reads no words"));
}

TEST_CASE("a model has a recipe of its own, and what is given goes before", "[options]") {
  const auto own = parse({"--model", "wrn-16-10"});
  REQUIRE(own.options);
  CHECK(own.options->data.directory == "data/fashion-mnist");
  CHECK(own.options->shape.depth == 16);
  CHECK(own.options->shape.width == 10);
  const Recipe& recipe = own.options->recipe;
  CHECK(recipe.epochs == 40);
  CHECK(recipe.momentum == 0.9);
  CHECK(recipe.warmup_epochs == 5);
  CHECK(recipe.target_accuracy == 0.85);
  CHECK(recipe.patience == 2);
  CHECK(recipe.validation_passes == 3);
  CHECK(recipe.factor(14.9) == 1);
  CHECK(recipe.factor(15) == 0.1);
  CHECK(recipe.factor(25) == 0.01);
  CHECK(recipe.factor(99) == 0.001);
  const auto given =
      parse({"--model", "wrn-16-10", "--depth", "10", "--width", "1", "--epochs", "2",
             "--target-accuracy", "0", "--data-dir", "d", "--optimizer", "novograd"});
  REQUIRE(given.options);
  CHECK(given.options->recipe.optimizer == "novograd");
  CHECK(given.options->shape.depth == 10);
  CHECK(given.options->shape.width == 1);
  CHECK(given.options->recipe.epochs == 2);
  CHECK(given.options->recipe.target_accuracy == 0);
  CHECK(given.options->recipe.warmup_epochs == 5);
  CHECK(given.options->data.directory == "d");
}

// The numbers of the sources (docs/models.md), each by hand.
TEST_CASE("the recipes are those of their sources", "[options]") {
  const auto recipe_of = [](const char* model) {
    return parse({"--model", model}).options->recipe;
  };
  const Recipe mnist = recipe_of("mnist-cnn");
  CHECK(mnist.optimizer == "sgd");
  CHECK(mnist.epochs == 10);
  CHECK(mnist.batch_size == 64);
  CHECK(mnist.test_batch_size == 1000);
  CHECK(mnist.lr == 0.01);
  CHECK(mnist.momentum == 0.5);
  CHECK(mnist.seed == 42);
  CHECK(mnist.log_interval == 10);
  CHECK(mnist.warmup_epochs == 0);
  const Recipe linear = recipe_of("mnist-linear");
  CHECK(linear.optimizer == "sgd");
  CHECK(linear.epochs == 3);
  CHECK(linear.batch_size == 32);
  CHECK(linear.test_batch_size == 256);
  CHECK(linear.lr == 0.01);
  CHECK(linear.momentum == 0.5);
  CHECK(linear.seed == 1);
  CHECK(linear.log_interval == 0);
  const Recipe resnet = recipe_of("resnet50");
  CHECK(resnet.optimizer == "sgd");
  CHECK(resnet.epochs == 90);
  CHECK(resnet.batch_size == 32);
  CHECK(resnet.lr == 0.0125);
  CHECK(resnet.momentum == 0.9);
  CHECK(resnet.weight_decay == 5e-5);
  CHECK(resnet.warmup_epochs == 5);
  CHECK(resnet.log_interval == 10);
  CHECK(resnet.factor(29) == 1);
  CHECK(resnet.factor(30) == 0.1);
  CHECK(resnet.factor(60) == 0.01);
  CHECK(resnet.factor(80) == 0.001);
  const Recipe alexnet = recipe_of("alexnet-owt");
  CHECK(alexnet.optimizer == "sgd");
  CHECK(alexnet.epochs == 90);
  CHECK(alexnet.lr * 256 / static_cast<double>(alexnet.batch_size) == 0.01);
  CHECK(alexnet.momentum == 0.9);
  CHECK(alexnet.weight_decay == 5e-4);
  CHECK(alexnet.log_interval == 10);
  CHECK(alexnet.warmup_epochs == 0);
  CHECK(alexnet.factor(30) == 0.1);
  CHECK(alexnet.factor(60) == 0.01);
  CHECK(parse({"--model", "alexnet-owt"}).options->shape.dropout == 0.5);
  const Recipe artists = recipe_of("artists-resnet");
  CHECK(artists.optimizer == "adam");
  CHECK(artists.epochs == 10);
  CHECK(artists.lr == 1e-4);
  CHECK(artists.weight_decay == 1e-4);
  const Recipe svhn = recipe_of("svhn-cnn");
  CHECK(svhn.optimizer == "sgd");
  CHECK(svhn.lr == 0.05);
  CHECK(svhn.epochs == 10);
  CHECK(svhn.batch_size == 32);
  CHECK(svhn.momentum == 0.5);
  CHECK(parse({"--model", "svhn-cnn"}).options->shape.dropout == 0.3);
  const Recipe text = recipe_of("text-nnlm");
  CHECK(text.optimizer == "adam");
  CHECK(text.lr == 0.001);
  CHECK(text.epochs == 20);
  CHECK(text.batch_size == 512);
  CHECK(text.patience == 2);
  for (const char* without : {"mnist-cnn", "mnist-linear", "wrn-16-10", "svhn-cnn", "text-nnlm"})
    CHECK(recipe_of(without).weight_decay == 0);
  CHECK(parse({"--model", "resnet50", "--weight-decay", "0"}).options->recipe.weight_decay == 0);
}

TEST_CASE("a model has a dropout of its own", "[options]") {
  CHECK(parse({"--describe", "--model", "wrn-16-10"}).options->shape.dropout == 0.01);
  CHECK(parse({"--describe", "--model", "wrn-16-10", "--dropout", "0.5"}).options->shape.dropout ==
        0.5);
  CHECK(parse({}).options->shape.dropout == 0.5);
  CHECK(parse({"--model", "resnet50", "--dropout", "0"}).options->shape.dropout == 0);
}

TEST_CASE("a wrong option is named in one line, exit code 64", "[options]") {
  const auto [arguments, expected] = GENERATE(table<std::vector<const char*>, const char*>({
      {{"--bogus"}, "unrecognised option '--bogus'"},
      {{"--epoch", "3"}, "unrecognised option '--epoch'; --help lists all options"},
      {{"--epochs", "many"}, "the argument ('many') for option '--epochs' is invalid"},
      {{"--epochs"}, "the required argument for option '--epochs' is missing"},
      {{"--epochs", "0"}, "--epochs takes 1 to 1000000, not 0"},
      {{"--batch-size", "-4"}, "--batch-size takes 1 to 1000000, not -4"},
      {{"--batch-size", "99999999999999999999"}, "'--batch-size' is invalid"},
      {{"--lr", "1", "--lr", "2"}, "option '--lr' cannot be specified more than once"},
      {{"--device", "tpu"}, "unknown device 'tpu'; there is: auto, cpu, cuda"},
      {{"--no-cuda", "--device", "cuda"}, "--no-cuda is --device cpu; give one of them"},
      {{"--keep", "3"}, "--keep is of --checkpoint-dir, which is not given"},
      {{"--checkpoint-dir", "d", "--keep", "0"}, "--keep takes 1 to 1000000, not 0"},
      {{"--test-batch-size", "0"}, "--test-batch-size takes 1 to 1000000, not 0"},
      {{"--log-interval", "-1"}, "--log-interval takes 0 to 1000000, not -1"},
      {{"--use-adasum=yes"}, "option '--use-adasum' does not take any arguments"},
      {{"--lr", "1x"}, "the argument ('1x') for option '--lr' is invalid"},
      {{"--lr", "0"}, "--lr takes a number above 0, not 0"},
      {{"--lr", "nan"}, "--lr takes a number above 0, not nan"},
      {{"--lr", "inf"}, "--lr takes a number above 0, not inf"},
      {{"--momentum", "1"}, "--momentum takes a number from 0 to below 1, not 1"},
      {{"--dropout", "-0.5"}, "--dropout takes a number from 0 to below 1, not -0.5"},
      {{"--dropout", "nan"}, "--dropout takes a number from 0 to below 1, not nan"},
      {{"--seed", "-1"}, "--seed takes a number from 0, not -1"},
      {{"--max-steps", "-1"}, "--max-steps takes 0 to"},
      {{"--model", "resnet"},
       "unknown model 'resnet'; there is: mnist-cnn, mnist-linear, resnet50, alexnet-owt, "
       "artists-resnet, wrn-16-10, text-nnlm, svhn-cnn\n"},
      {{"data"}, "unexpected argument 'data'"},
      {{"--depth", "16"}, "--depth: mnist-cnn has one only"},
      {{"--model", "wrn-16-10", "--depth", "12"},
       "--depth takes 10, 16, 22 and so on in steps of 6, not 12"},
      {{"--model", "wrn-16-10", "--depth", "4"}, "in steps of 6, not 4"},
      {{"--model", "wrn-16-10", "--width", "0"}, "--width takes 1 to 1000, not 0"},
      {{"--model", "alexnet-owt", "--image-size", "62"},
       "--image-size: alexnet-owt takes 63 at least, not 62"},
      {{"--target-accuracy", "85"}, "--target-accuracy takes a number from 0 to below 1, not 85"},
      {{"--optimizer", "rmsprop"},
       "unknown optimizer 'rmsprop'; there is: sgd, adam, novograd, lamb"},
      {{"--optimizer", "lamb", "--momentum", "0.9"}, "--momentum is that of sgd; lamb has its own"},
      {{"--model", "resnet50", "--dropout", "0.5"}, "--dropout: resnet50 has none"},
      {{"--weight-decay", "-0.1"}, "--weight-decay takes a number from 0, not -0.1"},
      {{"--weight-decay", "inf"}, "--weight-decay takes a number from 0, not inf"},
      {{"--plot", "x.png"}, "--plot writes an SVG picture; name it .svg, not 'x.png'"},
      {{"--plot=a.b/X.JPeG"}, "--plot writes an SVG picture; name it .svg, not 'a.b/X.JPeG'"},
      {{"--plot", "x.svg.pdf"}, "name it .svg, not 'x.svg.pdf'"},
      {{"--report", "r.json"},
       "--report writes a table of fields (CSV, or TSV for .tsv); name it .csv or .tsv, not "
       "'r.json'"},
      {{"--metrics-file", "m.csv"},
       "--metrics-file writes lines of JSON; name it .json, not 'm.csv'"},
      {{"--patience", "0"}, "--patience takes 1 to 1000000, not 0"},
      {{"--warmup-epochs", "-1"}, "--warmup-epochs takes 0 to 1000000, not -1"},
  }));
  const auto parsed = parse(arguments);
  CHECK_FALSE(parsed.options);
  CHECK(parsed.exit_code == exit_usage);
  CHECK_THAT(parsed.text, Catch::Matchers::Contains(expected));
  CHECK(parsed.text.rfind("train: ", 0) == 0);
  CHECK(std::count(parsed.text.begin(), parsed.text.end(), '\n') == 1);
}

}  // namespace
}  // namespace hvdrun
