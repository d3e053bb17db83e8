// text-nnlm on made-up reviews.
#include <cmath>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/integration/helpers/run_program.h"
#include "tests/integration/helpers/train_output.h"
#include "tests/turns.h"

namespace hvdrun::test {
namespace {

using namespace std::chrono_literals;

std::string reviews(const TempFolder& folder, const char* count) {
  const RunResult result = run({.args = {build_path("worker/labs/data/hvd-make-dataset"), "text",
                                         folder.path(), "--train", count, "--test", "1"}});
  INFO(result.err);
  REQUIRE(result.exit_code == 0);
  return folder.path();
}

// With a small table: what is tested here does not depend on its size, and all of it is a gradient.
RunResult train_text(const std::string& np, const std::string& data,
                     std::vector<std::string> args) {
  std::vector<std::string> all = {"-np",        np,   build_path("train"), "--model", "text-nnlm",
                                  "--data-dir", data, "--words",           "4096"};
  all.insert(all.end(), args.begin(), args.end());
  RunOptions options;
  options.limit = 240s;
  options.env.emplace_back("OMP_NUM_THREADS", "1");
  return hvdrun(all, options);
}

std::vector<double> text_losses(const std::string& np, const std::string& data,
                                const std::string& batch, const std::string& lr,
                                const std::vector<std::string>& more = {}) {
  const TempFolder folder;
  const std::string file = folder.path() + "/losses";
  std::vector<std::string> args = {"--batch-size", batch, "--lr",       lr,
                                   "--max-steps",  "6",   "--loss-log", file};
  args.insert(args.end(), more.begin(), more.end());
  const RunResult result = train_text(np, data, args);
  INFO(result.out << result.err);
  REQUIRE(result.exit_code == 0);
  std::vector<double> values = logged_losses(file);
  REQUIRE(values.size() == 6);
  return values;
}

}  // namespace

TEST_CASE("text-nnlm learns what no sum over words knows", "[train][text]") {
  const TempFolder folder;
  const std::string data = reviews(folder, "4000");
  const RunResult result =
      train_text("2", data, {"--epochs", "4", "--batch-size", "64", "--lr", "0.002"});
  INFO(result.out << result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(final_accuracy(result) > 80);  // a linear model of the bag: 70
  CHECK_THAT(result.out, Catch::Contains("validation loss ") && Catch::Contains(" sentences/s"));
}

TEST_CASE("text-nnlm: four ranks compute what one does", "[train][text]") {
  const TempFolder folder;
  const std::string data = reviews(folder, "600");
  const auto alone = text_losses("1", data, "64", "0.004");
  const auto together = text_losses("4", data, "16", "0.001");
  CHECK(largest_difference(alone, together) < 1e-4);
  // The same rows, added up in another order.
  const auto sparse = text_losses("4", data, "16", "0.001", {"--sparse-embedding"});
  CHECK(largest_difference(alone, sparse) < 1e-4);
}

TEST_CASE("text-nnlm: ranks without a sentence in a step add nothing to it", "[train][text]") {
  const TempFolder folder;
  const std::string data = reviews(folder, "100");
  // 81 sentences in 21 steps: the first has three.
  const auto alone = text_losses("1", data, "4", "0.004");
  const auto together = text_losses("4", data, "1", "0.001");
  CHECK(largest_difference(alone, together) < 1e-4);
}

TEST_CASE("a resumed run of text-nnlm stops where the unbroken one does", "[train][text]") {
  const TempFolder folder;
  const std::string data = reviews(folder, "600");
  const std::string state = folder.path() + "/state";
  // With a rate of nearly 0 the first epoch is the best one.
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--batch-size", "100", "--lr", "1e-20"});
    const RunResult result = train_text("2", data, more);
    INFO(result.out << result.err);
    REQUIRE(result.exit_code == 0);
    return result.out;
  };
  const char* const end = "validation loss no lower for 2 epochs in a row: done";
  CHECK_THAT(with({"--epochs", "2", "--checkpoint", state}), !Catch::Contains(end));
  const std::string rest = with({"--epochs", "9", "--resume", state});
  CHECK_THAT(rest,
             Catch::Contains("epoch 3/9") && Catch::Contains(end) && !Catch::Contains("epoch 4/9"));
}

TEST_CASE("text-nnlm begins with vectors of a file, and stops when it learns no more",
          "[train][text]") {
  if (!takes_turn(3)) return;
  const TempFolder folder;
  const std::string data = reviews(folder, "600");
  const std::string file = folder.path() + "/words.vec";
  {
    std::ofstream out(file);
    out << "film";
    for (int i = 0; i < 128; ++i) out << " 0.25";
    out << "\n. .";
    for (int i = 0; i < 128; ++i) out << " 0.5";
    out << "\n";
  }
  // Frozen and with a rate of nearly 0 nothing gets better for long.
  const RunResult result = train_text("2", data,
                                      {"--embedding", file, "--freeze-embedding", "--batch-size",
                                       "100", "--lr", "1e-20", "--epochs", "9"});
  INFO(result.out << result.err);
  REQUIRE(result.exit_code == 0);
  CHECK_THAT(result.out, Catch::Contains("validation loss no lower for 2 epochs in a row: done"));
  CHECK_THAT(result.out, !Catch::Contains("epoch 9/9"));
  CHECK_THAT(result.err, Catch::Contains("words.vec: 1 lines left out, whose word is none"));
  // The rows of a vocabulary are other words' than those of a hash.
  const std::string state = folder.path() + "/state";
  const std::vector<std::string> known = {"--vocabulary", "50", "--batch-size", "100"};
  auto args = known;
  args.insert(args.end(), {"--epochs", "1", "--checkpoint", state, "--embedding", file});
  REQUIRE(train_text("2", data, args).exit_code == 0);
  args = known;
  args.insert(args.end(), {"--epochs", "2", "--resume", state});
  CHECK(train_text("2", data, args).exit_code == 0);
  const RunResult hashed = train_text("2", data, {"--batch-size", "100", "--resume", state});
  CHECK(hashed.exit_code == 66);
  CHECK_THAT(hashed.err, Catch::Contains("'text-nnlm --vocabulary 50', not 'text-nnlm'"));

  // Frozen vectors are not the optimizer's, so its state is of other parameters.
  args = known;
  args.insert(args.end(), {"--resume", state, "--freeze-embedding"});
  const RunResult frozen = train_text("2", data, args);
  CHECK(frozen.exit_code == 64);
  CHECK_THAT(frozen.err, Catch::Contains(state + ": a checkpoint of a run without "
                                                 "--freeze-embedding; leave it out, or begin anew "
                                                 "without --resume\n"));
  args = known;
  args.insert(args.end(), {"--epochs", "1", "--checkpoint", state, "--freeze-embedding"});
  REQUIRE(train_text("2", data, args).exit_code == 0);
  args = known;
  args.insert(args.end(), {"--epochs", "2", "--resume", state});
  const RunResult thawed = train_text("2", data, args);
  CHECK(thawed.exit_code == 64);
  CHECK_THAT(thawed.err, Catch::Contains("a checkpoint of a run with --freeze-embedding; add it"));
  args.emplace_back("--freeze-embedding");
  CHECK(train_text("2", data, args).exit_code == 0);

  std::ofstream(file) << "film 1 2 3\n";
  const RunResult wrong = train_text("2", data, {"--embedding", file, "--batch-size", "100"});
  CHECK(wrong.exit_code == 66);
  CHECK_THAT(wrong.err, Catch::Contains("words.vec:1: byte 0: 3 numbers, not 128"));
  const RunResult column = train_text("2", data, {"--text-column", "review"});
  CHECK(column.exit_code == 66);
  CHECK_THAT(column.err, Catch::Contains("sentences.csv"));
}

TEST_CASE("what a file says reaches the terminal in printable characters", "[train][text]") {
  const TempFolder folder;
  std::ofstream(folder.path() + "/sentences.csv") << "te\x1b[31mxt,\"la\nbel\"\nwords,1\n";
  const std::string wrong =
      folder.path() +
      "/sentences.csv:1: byte 0: no column 'text', no column 'label'; there is: "
      "'te\\x1b[31mxt' 'la\\nbel' (the first line names them); choose with --text-column and "
      "--label-column\n";
  const RunResult result = train_text("2", folder.path(), {});
  CHECK(result.exit_code == 66);
  CHECK_THAT(result.err, Catch::Contains("[0]<stderr>:train: " + wrong));
  const RunResult tape = run({.args = {build_path("train-tape"), folder.path()}});
  CHECK(tape.exit_code == 66);
  CHECK(tape.err == "train-tape: " + wrong);
}

TEST_CASE("labels that are words, tabs and gzip: train and train-tape say which label is 1",
          "[train][text]") {
  if (!takes_turn(3)) return;
  const TempFolder folder;
  {
    std::ofstream out(folder.path() + "/sentences.tsv");
    out << "\tkind\tmessage\r\n";
    for (int i = 0; i < 400; ++i)
      out << i << (i % 2 == 0 ? "\tham\tsee you, at home\r\n" : "\tSpam\tfree money\r\n");
  }
  const std::vector<std::string> columns = {"--text-column", "message", "--label-column", "kind"};
  auto args = columns;
  args.insert(args.end(), {"--epochs", "1", "--batch-size", "10", "--lr", "0.01"});
  const RunResult plain = train_text("2", folder.path(), args);
  INFO(plain.out << plain.err);
  CHECK(plain.exit_code == 0);
  CHECK(plain.err == "[0]<stderr>:train: labels: spam is 1, ham is 0\n");
  CHECK(final_accuracy(plain) == 100);
  const RunResult packed = run({.args = {"/bin/gzip", folder.path() + "/sentences.tsv"}});
  REQUIRE(packed.exit_code == 0);
  const RunResult tape = run({.args = {build_path("train-tape"), "--text-column", "message",
                                       "--label-column=kind", folder.path(), "2"}});
  CHECK(tape.exit_code == 0);
  CHECK(tape.err == "train-tape: labels: spam is 1, ham is 0\n");
  CHECK_THAT(tape.out, Catch::Contains("test accuracy 100.00 %"));
  const RunResult none = run({.args = {build_path("train-tape"), folder.path()}});
  CHECK(none.exit_code == 66);
  CHECK_THAT(none.err, Catch::Contains("there is: '' 'kind' 'message' (the first line names them); "
                                       "choose with --text-column and --label-column\n"));
  const RunResult usage = run({.args = {build_path("train-tape"), "--text-column"}});
  CHECK(usage.exit_code == 64);
}

TEST_CASE("labels of one class, or of many, train nothing", "[train][text]") {
  for (const int values : {1, 5}) {
    const TempFolder folder;
    {
      std::ofstream out(folder.path() + "/sentences.csv");
      out << "text,label\n";
      for (int i = 0; i < 400; ++i) out << "words," << i % values << "\n";
    }
    const RunResult result = train_text("2", folder.path(), {"--epochs", "1"});
    CHECK(result.exit_code == 66);
    CHECK_THAT(result.err,
               Catch::Contains("sentences.csv: column 'label': two values are expected, "
                               "there is: '0' "));
    // One rank says it, in one line; hvdrun's report repeats that.
    CHECK(result.err.find(">:train: ") == result.err.rfind(">:train: "));
  }
}

TEST_CASE("the text lab's own loop learns the same on one rank and on four", "[train][text]") {
  if (!takes_turn(3)) return;
  const TempFolder folder;
  const std::string data = reviews(folder, "3000");
  RunOptions options;
  options.limit = 240s;
  options.env.emplace_back("OMP_NUM_THREADS", "1");
  std::vector<double> first_losses;
  for (const char* np : {"1", "4"}) {
    const RunResult result = hvdrun({"-np", np, build_path("train-tape"), data, "5"}, options);
    CHECK(final_accuracy(result) > 80);
    double loss = 0;
    const auto at = result.out.find("epoch 1/5  loss ");
    REQUIRE(at != std::string::npos);
    REQUIRE(std::sscanf(result.out.c_str() + at, "epoch 1/5 loss %lf", &loss) == 1);
    first_losses.push_back(loss);
  }
  // The ranks began with other weights; after the first step they have those of rank 0.
  CHECK(first_losses[1] == Approx(first_losses[0]).epsilon(0.03));
  const RunResult none = hvdrun({"-np", "2", build_path("train-tape"), "/none"}, options);
  CHECK(none.exit_code == 66);
  CHECK_THAT(none.err,
             Catch::Contains("train-tape: /none/sentences.csv: No such file or directory"));
  const RunResult wrong = hvdrun({"-np", "2", build_path("train-tape"), data, "0"}, options);
  CHECK(wrong.exit_code == 64);
  CHECK_THAT(wrong.err, Catch::Contains("train-tape: usage: train-tape [--text-column NAME]"));
}

TEST_CASE("the loop of one's own learns the same on one rank and on four", "[train][text]") {
  std::vector<std::vector<double>> losses;
  for (const char* np : {"1", "4"}) {
    RunOptions options;
    options.limit = 120s;
    options.env.emplace_back("OMP_NUM_THREADS", "1");
    const RunResult result =
        hvdrun({"-np", np, build_path("tests/integration/programs/tape")}, options);
    INFO(result.out << result.err);
    REQUIRE(result.exit_code == 0);
    losses.emplace_back();
    for (auto at = result.out.find("loss "); at != std::string::npos;
         at = result.out.find("loss ", at + 1))
      losses.back().push_back(std::stod(result.out.substr(at + 5)));
  }
  REQUIRE(losses[0].size() == 6);
  REQUIRE(losses[1].size() == 6);
  for (std::size_t i = 0; i < 6; ++i) CHECK(std::abs(losses[0][i] - losses[1][i]) < 2e-3);
  CHECK(losses[0][5] < 0.7 * losses[0][0]);
}

}  // namespace hvdrun::test
