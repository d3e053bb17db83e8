// Things that a run of train leaves and shows: checkpoints in a folder, a plot, lines of steps, a
// bar.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <set>
#include <thread>

#include "tests/catch.h"
#include "tests/integration/helpers/run_program.h"
#include "tests/soak.h"
#include "tests/turns.h"

namespace hvdrun::test {
namespace {

using namespace std::chrono_literals;

const std::string& few_digits() {
  static const TempFolder folder;
  static const RunResult made =
      run({.args = {build_path("worker/labs/data/hvd-make-dataset"), "mnist", folder.path(),
                    "--train", "640", "--test", "64"}});
  REQUIRE(made.exit_code == 0);
  return folder.path();
}

// Batches of 32, twenty steps an epoch of one rank, unless `args` say otherwise.
std::vector<std::string> train_command(std::vector<std::string> args) {
  std::vector<std::string> all = {build_path("train")};
  if (std::find(args.begin(), args.end(), "--data-dir") == args.end())
    all.insert(all.end(), {"--data-dir", few_digits()});
  if (std::find(args.begin(), args.end(), "--batch-size") == args.end())
    all.insert(all.end(), {"--batch-size", "32"});
  all.insert(all.end(), args.begin(), args.end());
  return all;
}

RunResult train_on_few(const std::string& np, std::vector<std::string> args) {
  std::vector<std::string> all = {"-np", np};
  for (std::string& word : train_command(std::move(args))) all.push_back(std::move(word));
  return hvdrun(all, {.env = {{"OMP_NUM_THREADS", "1"}}, .limit = 120s});
}

std::set<std::string> names_in(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.insert(entry.path().filename().string());
  return names;
}

TEST_CASE("an epoch that --max-steps cuts short is told of, and not checkpointed", "[train]") {
  const TempFolder files;
  const std::string metrics = files.path() + "/metrics";
  const std::string state = files.path() + "/state";
  const RunResult result =
      train_on_few("2", {"--max-steps", "3", "--metrics-file", metrics, "--checkpoint", state});
  INFO(result.out << result.err);
  REQUIRE(result.exit_code == 0);
  std::ifstream in(metrics);
  std::string line;
  REQUIRE(std::getline(in, line));
  CHECK_THAT(line, Catch::Contains("\"epoch\": 1,") && Catch::Contains("\"steps\": 3,"));
  CHECK_FALSE(std::getline(in, line));
  CHECK_FALSE(std::filesystem::exists(state));
}

TEST_CASE("a folder of checkpoints is gone on from, past a damaged one", "[train]") {
  const TempFolder files;
  const std::string folder = files.path() + "/states";
  const auto losses_of = [&](std::vector<std::string> args) {
    const std::string file = files.path() + "/losses";
    args.insert(args.end(), {"--loss-log", file});
    const RunResult result = train_on_few("2", args);
    INFO(result.out << result.err);
    REQUIRE(result.exit_code == 0);
    std::ifstream in(file);
    return std::vector<std::string>(std::istream_iterator<std::string>(in), {});
  };
  const auto all = losses_of({"--epochs", "4", "--checkpoint-dir", folder, "--keep", "2"});
  REQUIRE(all.size() == 40);
  CHECK(names_in(folder) == std::set<std::string>{"epoch-000003.ckpt", "epoch-000004.ckpt"});
  std::filesystem::resize_file(folder + "/epoch-000004.ckpt", 5000);
  const std::string losses = files.path() + "/resumed";
  const RunResult result =
      train_on_few("2", {"--epochs", "4", "--checkpoint-dir", folder, "--resume", folder,
                         "--loss-log", losses, "--keep", "2"});
  INFO(result.out << result.err);
  REQUIRE(result.exit_code == 0);
  CHECK_THAT(result.out, Catch::Contains("resumed from " + folder +
                                         "/epoch-000003.ckpt after 3 epochs, 30 steps"));
  CHECK_THAT(result.err, Catch::Contains("epoch-000004.ckpt: not a checkpoint of train, or cut "
                                         "short; going on from " +
                                         folder + "/epoch-000003.ckpt"));
  // Bit for bit the run that was not broken.
  std::ifstream in(losses);
  CHECK(std::vector<std::string>(std::istream_iterator<std::string>(in), {}) ==
        std::vector<std::string>(all.end() - 10, all.end()));
  CHECK(std::filesystem::file_size(folder + "/epoch-000004.ckpt") > 5000);
  // Another run's.
  const RunResult other = train_on_few("2", {"--epochs", "1", "--checkpoint-dir", folder});
  CHECK(other.exit_code == 73);
  CHECK_THAT(other.err, Catch::Contains("has the checkpoints of a run already"));
  const RunResult empty = train_on_few("2", {"--epochs", "1", "--resume", files.path()});
  CHECK(empty.exit_code == 66);
  CHECK_THAT(empty.err, Catch::Contains("no checkpoint in it"));
}

TEST_CASE("going on with other data is told once, and done", "[train]") {
  const TempFolder files;
  const TempFolder others;
  const RunResult made = run({.args = {build_path("worker/labs/data/hvd-make-dataset"), "mnist",
                                       others.path(), "--train", "320", "--test", "64"}});
  REQUIRE(made.exit_code == 0);
  const std::string state = files.path() + "/state";
  REQUIRE(train_on_few("2", {"--epochs", "1", "--checkpoint", state}).exit_code == 0);
  const RunResult same = train_on_few("1", {"--epochs", "2", "--resume", state});
  CHECK(same.exit_code == 0);
  CHECK_THAT(same.err, !Catch::Contains("other data"));
  const RunResult other =
      train_on_few("2", {"--epochs", "2", "--resume", state, "--data-dir", others.path()});
  CHECK(other.exit_code == 0);
  CHECK(other.err == "[0]<stderr>:train: " + state +
                         " was trained on other data (640 training images) than that of " +
                         others.path() +
                         " (320); going on with the latter, --data-dir names another folder\n");
}

TEST_CASE("a job that is killed at any moment goes on from a whole checkpoint", "[train]") {
  const TempFolder files;
  const std::string folder = files.path() + "/states";
  std::mt19937 random(static_cast<unsigned>(soak_seed("a killed job")));
  for (int round = 0; round < 3; ++round) {
    std::vector<std::string> args = {"--epochs",     "100000", "--checkpoint-dir", folder,
                                     "--batch-size", "320",    "--keep",           "2"};
    if (round > 0) args.insert(args.end(), {"--resume", folder});
    Background job({.args = train_command(args), .env = {{"OMP_NUM_THREADS", "1"}}});
    job.wait_for_output("epoch " + std::to_string(7 * round + 5) + "/", 60s);
    // An epoch takes longer than this: while it computes, or writes.
    std::this_thread::sleep_for(
        std::chrono::microseconds(std::uniform_int_distribution<int>(0, 60'000)(random)));
    REQUIRE(::kill(job.pid(), SIGKILL) == 0);
    CHECK(job.wait(20s) == 128 + SIGKILL);
    const auto names = names_in(folder);
    CAPTURE(round, names);
    CHECK(names.size() >= 2);
    CHECK(names.size() <= static_cast<std::size_t>(3 + round));  // each kill may leave one more
    for (const std::string& name : names) CHECK_THAT(name, Catch::EndsWith(".ckpt"));
  }
}

TEST_CASE("a plot is XML with both curves of each epoch", "[train]") {
  const TempFolder files;
  const std::string plot = files.path() + "/plot.svg";
  const RunResult result =
      train_on_few("2", {"--epochs", "3", "--plot", plot, "--log-interval", "4", "--no-cuda"});
  INFO(result.out << result.err);
  REQUIRE(result.exit_code == 0);
  const RunResult parsed = run({.args = {"/usr/bin/python3", "-c", R"(
import sys, xml.etree.ElementTree as tree
svg = "{http://www.w3.org/2000/svg}"
root = tree.parse(sys.argv[1]).getroot()
lines = root.findall(svg + "polyline")
texts = [text.text for text in root.findall(svg + "text")]
print(root.tag == svg + "svg", len(lines), [len(line.get("points").split()) for line in lines],
      len(root.findall(svg + "circle")), texts.count("train"), texts.count("validation"),
      texts.count("epoch"), all(tick in texts for tick in "123"))
)",
                                         plot}});
  CHECK(parsed.out + parsed.err == "True 4 [3, 3, 3, 3] 12 2 2 2 True\n");
  // Ten steps an epoch. No terminal, no bar.
  for (const char* text : {"epoch 1  step 4/10  loss ", "epoch 3  step 8/10  loss "})
    CHECK_THAT(result.out, Catch::Contains(text));
  CHECK_THAT(result.out, !Catch::Contains("step 5/10") && !Catch::Contains("\r") &&
                             !Catch::Contains("[1]<stdout>"));
  const RunResult nowhere = train_on_few("1", {"--epochs", "1", "--plot", "/nonexistent/plot"});
  CHECK(nowhere.exit_code == 73);
  CHECK_THAT(nowhere.err, Catch::Contains("/nonexistent/plot: No such file or directory"));
}

TEST_CASE("a report is CSV with every test sample once, of a model without class names",
          "[train]") {
  const TempFolder files;
  const std::string report = files.path() + "/report.csv";
  const RunResult result = train_on_few("2", {"--epochs", "1", "--report", report});
  INFO(result.out << result.err);
  REQUIRE(result.exit_code == 0);
  CHECK_THAT(result.out, !Catch::Contains("confusion"));
  const RunResult parsed = run({.args = {"/usr/bin/python3", "-c", R"(
import csv, sys
rows = list(csv.DictReader(open(sys.argv[1])))
taken = [[int(row["taken for %d" % i]) for i in range(10)] for row in rows]
print([row["class"] for row in rows] == [str(i) for i in range(10)], sum(map(sum, taken)),
      all(int(row["support"]) == sum(counts) for row, counts in zip(rows, taken)))
right = sum(taken[i][i] for i in range(10))
print("%.2f" % (100 * right / 64))
)",
                                         report}});
  const std::string accuracy = parsed.out.substr(parsed.out.find('\n') + 1);
  CHECK_THAT(parsed.out + parsed.err, Catch::StartsWith("True 64 True\n"));
  CHECK_THAT(result.out,
             Catch::Contains("test accuracy " + accuracy.substr(0, accuracy.size() - 1) + " %"));
  // Before the training, not after it.
  const RunResult nowhere = train_on_few("2", {"--epochs", "1", "--report", "/nonexistent/r"});
  CHECK(nowhere.exit_code == 73);
  CHECK_THAT(nowhere.err, Catch::Contains("/nonexistent/r: No such file or directory"));
  CHECK_THAT(nowhere.out, !Catch::Contains("epoch 1"));
}

// On a pseudo-terminal of 70 columns; `out` is what has been written to it, as Python spells it.
RunResult run_on_terminal(const std::vector<std::string>& words) {
  std::string command = "exec";
  for (const std::string& word : words) command += " '" + word + "'";
  return run({.args = {"/usr/bin/python3", "-c", R"(
import os, pty, sys
pid, fd = pty.fork()
if pid == 0:
    os.execv("/bin/sh", ["sh", "-c", "stty cols 70; " + sys.argv[1]])
shown = b""
while True:
    try:
        data = os.read(fd, 65536)
    except OSError:
        break
    if not data:
        break
    shown += data
sys.stdout.write(repr(shown.decode()) + "\n")
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
)",
                       command},
              .env = {{"OMP_NUM_THREADS", "1"}, {"TERM", "xterm"}},
              .limit = 60s});
}

TEST_CASE("on a terminal there is a bar, and it is gone at the end", "[train]") {
  const RunResult result = run_on_terminal(train_command({"--epochs", "1"}));
  INFO(result.out << result.err);
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out,
             Catch::Contains(R"(\repoch 1/1 [#...........................] 1/20  loss )"));
  CHECK_THAT(result.out, Catch::Contains(R"(\r\x1b[Kepoch 1/1  loss )"));
}

TEST_CASE("on hvdrun's terminal rank 0 has a bar that fits behind its tag", "[train]") {
  std::vector<std::string> words = {build_path("hvdrun"), "-np", "2", "--color", "never"};
  const std::vector<std::string> rest = train_command({"--epochs", "1", "--log-interval", "0"});
  words.insert(words.end(), rest.begin(), rest.end());
  const RunResult shown = run_on_terminal(words);
  INFO(shown.out << shown.err);
  CHECK(shown.exit_code == 0);
  // 69 of 70 columns with the tag; blanks take it away again.
  const std::string bar = R"([0]<stdout>:epoch 1/1 [#...............] 1/10  loss )";
  const auto at = shown.out.find(bar);
  REQUIRE(at != std::string::npos);
  const std::string line = shown.out.substr(at, shown.out.find("\\r", at) - at);
  CHECK(line.size() == 69);
  CHECK_THAT(shown.out, Catch::Contains(R"(     \r[0]<stdout>:epoch 1/1  loss )") &&
                            !Catch::Contains("[1]<stdout>"));
  // No bar where the bytes go into files as well.
  const TempFolder files;
  words.insert(words.begin() + 1, {"--output-filename", files.path()});
  const RunResult filed = run_on_terminal(words);
  INFO(filed.out << filed.err);
  CHECK(filed.exit_code == 0);
  CHECK_THAT(filed.out, !Catch::Contains("1/10") && Catch::Contains("epoch 1/1  loss "));
}

TEST_CASE("every model runs on synthetic data, on two ranks", "[train]") {
  if (!takes_turn(3)) return;
  const std::string model = GENERATE("mnist-cnn", "mnist-linear", "resnet50", "alexnet-owt",
                                     "artists-resnet", "wrn-16-10", "text-nnlm", "svhn-cnn");
  std::vector<std::string> args = {
      "--model", model, "--synthetic", "--batch-size", "2", "--max-steps", "3", "--epochs", "1"};
  if (model == "wrn-16-10") args.insert(args.end(), {"--depth", "10", "--width", "1"});
  if (model == "resnet50" || model == "alexnet-owt" || model == "artists-resnet")
    args.insert(args.end(), {"--width", "8", "--image-size", "64"});
  const RunResult result = train_on_few("2", args);
  INFO(result.out << result.err);
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, Catch::Contains("synthetic data") && Catch::Contains("test accuracy "));
}

TEST_CASE("Adasum leaves the rate, 16 bits change the losses a little", "[train]") {
  const TempFolder files;
  const auto losses_of = [&](std::vector<std::string> more, const std::string& rate) {
    const std::string file = files.path() + "/losses";
    std::vector<std::string> args = {"--epochs", "1", "--dropout", "0", "--loss-log", file};
    args.insert(args.end(), more.begin(), more.end());
    const RunResult result = train_on_few("2", args);
    INFO(result.out << result.err);
    REQUIRE(result.exit_code == 0);
    CHECK_THAT(result.out, Catch::Contains(rate));
    std::ifstream in(file);
    return std::vector<double>(std::istream_iterator<double>(in), {});
  };
  const auto usual = losses_of({}, "lr 0.01 x 2 = 0.02, momentum 0.5\n");
  const auto adasum = losses_of({"--use-adasum"}, "lr 0.01 x 1 = 0.01, momentum 0.5, Adasum\n");
  const auto half = losses_of({"--fp16-allreduce"}, "momentum 0.5, gradients travel as fp16\n");
  REQUIRE(usual.size() == 10);
  CHECK(adasum.front() == usual.front());
  CHECK(adasum != usual);
  CHECK(half != usual);
  for (std::size_t i = 0; i < usual.size(); ++i) CHECK(half[i] == Approx(usual[i]).epsilon(1e-2));
}

TEST_CASE("a GPU that is not there is one line", "[train]") {
  if (std::filesystem::exists("/dev/nvidia0")) return;
  const RunResult result = train_on_few("1", {"--device", "cuda"});
  CHECK(result.exit_code == 64);
  CHECK_THAT(result.err, Catch::Contains("train: --device cuda: this rank has no GPU"));
}

}  // namespace
}  // namespace hvdrun::test
