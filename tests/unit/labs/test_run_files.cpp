#include <algorithm>
#include <cmath>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <sys/wait.h>
#include <unistd.h>

#include "common/unique_fd.h"
#include "tests/soak.h"
#include "tests/unit/data/temporary_folder.h"
#include "tests/unit/torch/catch_with_torch.h"
#include "worker/labs/checked_file.h"
#include "worker/labs/checkpoint_folder.h"
#include "worker/labs/curve_plot.h"
#include "worker/labs/progress_bar.h"

namespace hvdrun {
namespace {

using test::TemporaryFolder;

std::set<std::string> files_in(const std::string& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.insert(entry.path().filename().string());
  return names;
}

bool any(std::string_view, std::string&) { return true; }

std::string content_of_epoch(std::int64_t epoch, std::size_t bytes = 1000) {
  return add_checksum(std::to_string(epoch) + std::string(bytes, 'x'));
}

void write_epochs(const CheckpointFolder& folder, std::int64_t first, std::int64_t last) {
  std::string error;
  for (std::int64_t epoch = first; epoch <= last; ++epoch) {
    INFO(error);
    REQUIRE(folder.write(epoch, content_of_epoch(epoch), error));
  }
}

TEST_CASE("a folder keeps the newest checkpoints and gives the newest one", "[checkpoints]") {
  const TemporaryFolder temporary;
  const std::string path = temporary / "a/b";
  const CheckpointFolder folder(path, 2);
  std::string error;
  REQUIRE(folder.prepare("", error));
  write_epochs(folder, 8, 11);
  CHECK(files_in(path) == std::set<std::string>{"epoch-000010.ckpt", "epoch-000011.ckpt"});
  const auto found = find_checkpoint(path, any, error);
  REQUIRE(found);
  CHECK(found->path == path + "/epoch-000011.ckpt");
  CHECK(found->bytes == content_of_epoch(11));
  CHECK(found->damaged.empty());
  // A file is what it is, and so is one that is not there.
  CHECK(find_checkpoint(path + "/epoch-000010.ckpt", any, error)->bytes == content_of_epoch(10));
  CHECK_FALSE(find_checkpoint(path + "/none", any, error));
  CHECK(error == path + "/none: No such file or directory");
}

TEST_CASE("a damaged checkpoint is said and passed over", "[checkpoints]") {
  const TemporaryFolder temporary;
  const CheckpointFolder folder(temporary.path(), 9);
  write_epochs(folder, 1, 3);
  temporary.write("epoch-000003.ckpt", content_of_epoch(3).substr(0, 500));
  temporary.write("epoch-4.ckpt", "not ours");
  std::string error;
  auto found = find_checkpoint(temporary.path(), any, error);
  REQUIRE(found);
  CHECK(found->path == temporary / "epoch-000002.ckpt");
  REQUIRE(found->damaged.size() == 1);
  CHECK(found->damaged[0] ==
        temporary / "epoch-000003.ckpt" + ": not a checkpoint of train, or cut short");
  // The run comes to the damaged epoch again and writes over it.
  write_epochs(folder, 3, 3);
  CHECK(find_checkpoint(temporary.path(), any, error)->bytes == content_of_epoch(3));
  for (const char* name : {"epoch-000001.ckpt", "epoch-000002.ckpt", "epoch-000003.ckpt"})
    temporary.write(name, "x");
  CHECK_FALSE(find_checkpoint(temporary.path(), any, error));
  CHECK_THAT(error, Catch::Contains("none of its 3 checkpoints can be read"));
}

TEST_CASE("a folder of one run does not take those of another", "[checkpoints]") {
  const TemporaryFolder temporary;
  const CheckpointFolder folder(temporary.path(), 2);
  std::string error;
  CHECK_FALSE(find_checkpoint(temporary.path(), any, error));
  CHECK_THAT(error, Catch::Contains(temporary.path() + ": no checkpoint in it"));
  error.clear();
  write_epochs(folder, 1, 2);
  CHECK(folder.prepare(temporary.path() + "/.", error));
  for (const std::string& from : {std::string(), temporary / "epoch-000001.ckpt"}) {
    error.clear();
    CHECK_FALSE(folder.prepare(from, error));
    CHECK_THAT(error, Catch::Contains("--resume " + temporary.path()));
  }
  temporary.write("file", "");
  error.clear();
  CHECK_FALSE(CheckpointFolder(temporary / "file", 1).prepare("", error));
  CHECK_THAT(error, Catch::StartsWith(temporary / "file" + ": "));
}

bool knows_unnamed_files(const std::string& folder) {
  return UniqueFd(::open(folder.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0600)).get() >= 0;
}

// The writer writes one epoch after the other until it is killed, wherever it is then.
TEST_CASE("a killed writer leaves whole checkpoints and nothing else", "[checkpoints]") {
  std::mt19937 random(static_cast<unsigned>(test::soak_seed("a killed writer of checkpoints")));
  const TemporaryFolder temporary;
  const CheckpointFolder folder(temporary.path(), 3);
  std::string error;
  std::int64_t last = 0;
  const bool again = GENERATE(false, true);  // over a file that is there
  for (int round = 0; round < 10; ++round) {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      std::string ignored;
      for (std::int64_t epoch = last + 1;; epoch += again ? 0 : 1)
        if (!folder.write(epoch, content_of_epoch(epoch, 500'000), ignored)) ::_exit(1);
    }
    const auto until = std::uniform_int_distribution<int>(1000, 60'000)(random);
    ::usleep(static_cast<useconds_t>(until));
    REQUIRE(::kill(child, SIGKILL) == 0);
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFSIGNALED(status));
    const auto left = files_in(temporary.path());
    if (!again && knows_unnamed_files(temporary.path()))
      CHECK(std::all_of(left.begin(), left.end(), [](const std::string& name) {
        return name.find(".tmp.") == std::string::npos;
      }));
    // What the moment between link and rename leaves is gone as soon as the folder is used again.
    error.clear();
    REQUIRE(folder.prepare(temporary.path(), error));
    const auto names = files_in(temporary.path());
    CAPTURE(round, names);
    // The old one is removed last, so each kill may leave one more than are kept.
    CHECK(names.size() <= static_cast<std::size_t>(3 + 1 + round));
    for (const std::string& name : names) {
      CHECK_THAT(name, Catch::EndsWith(".ckpt"));
      std::ifstream in(temporary / name, std::ios::binary);
      const std::string bytes((std::istreambuf_iterator<char>(in)), {});
      CHECK(verify_checksum(bytes, error));
    }
    if (names.empty()) continue;
    const std::int64_t newest = std::stoll(names.rbegin()->substr(6));
    CHECK(newest >= last);
    last = again ? 0 : newest;
  }
  write_epochs(folder, last + 1, last + 1);
  const auto names = files_in(temporary.path());
  CHECK(names.size() <= 3);
  CHECK(names.size() >= 1);
}

TEST_CASE("ticks are round and enclose what is shown", "[plot]") {
  using Ticks = std::vector<double>;
  const auto near = [](const Ticks& a, const Ticks& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](double x, double y) { return std::abs(x - y) < 1e-9; });
  };
  CHECK(near(axis_ticks(0, 10, 5), {0, 2, 4, 6, 8, 10}));
  CHECK(near(axis_ticks(0.13, 0.52, 5), {0.1, 0.2, 0.3, 0.4, 0.5, 0.6}));
  CHECK(near(axis_ticks(-1, 1, 4), {-1, -0.5, 0, 0.5, 1}));
  for (const auto& [low, high] : std::vector<std::pair<double, double>>{
           {0, 0}, {7, 7}, {1e-300, 2e-300}, {1e17, 1e17 + 16}, {-1e300, 1e300}, {3, 2}}) {
    const Ticks ticks = axis_ticks(low, high, 6);
    CAPTURE(low, high, ticks);
    CHECK(ticks.size() >= 2);
    CHECK(ticks.size() <= 10);
    CHECK(ticks.front() <= low);
    CHECK(ticks.back() >= low);
    CHECK(std::is_sorted(ticks.begin(), ticks.end()));
  }
}

TEST_CASE("a plot has its curves, gaps where there is no number, and no raw text", "[plot]") {
  const double nan = std::nan("");
  const std::string svg =
      svg_plot("<a & \"b\">", "epoch",
               {{"loss", {{"train", {{1, 2}, {2, 1}, {3, nan}, {4, 0.5}}}, {"validation", {}}}}});
  const auto count = [&](const std::string& part) {
    int times = 0;
    for (auto at = svg.find(part); at != std::string::npos; at = svg.find(part, at + 1)) ++times;
    return times;
  };
  CHECK(count("<polyline") == 2);
  CHECK(count("<circle") == 3);
  CHECK(count("nan") == 0);
  CHECK(count("&lt;a &amp; &quot;b&quot;&gt;") == 2);
  CHECK(count(">validation</text>") == 1);
  CHECK(count(">epoch</text>") == 1);
}

TEST_CASE("the bar is redrawn ten times a second at most and leaves its line empty", "[bar]") {
  using std::chrono::milliseconds;
  ProgressBar bar(60);
  const ProgressBar::Time start{};
  CHECK(bar.clear().empty());
  CHECK(bar.draw("epoch 1/2", 1, 4, 0.5, start) ==
        "\repoch 1/2 [#######.......................] 1/4  loss 0.5000\x1b[K");
  int drawn = 0;
  for (int ms = 1; ms <= 1000; ++ms)
    if (!bar.draw("epoch 1/2", 2, 4, 0.5, start + milliseconds(ms)).empty()) ++drawn;
  CHECK(drawn == 10);
  CHECK(bar.clear() == "\r\x1b[K");
  CHECK(bar.clear().empty());
  // Never longer than the line, or it could not be taken back.
  for (std::size_t columns = 0; columns < 100; ++columns) {
    ProgressBar narrow(columns);
    const std::string text = narrow.draw("epoch 1/2", 4, 4, 0.5, start);
    CHECK(text.size() - std::string("\r\x1b[K").size() <= (columns > 0 ? columns - 1 : 0));
  }
}

TEST_CASE("the bar on hvdrun's terminal is a line that ends with \\r", "[bar]") {
  using std::chrono::milliseconds;
  ProgressBar bar(70, ProgressBar::Terminal::of_hvdrun);
  const ProgressBar::Time start{};
  CHECK(bar.clear().empty());
  CHECK(bar.draw("epoch 1/2", 1, 4, 0.5, start) ==
        "epoch 1/2 [#######.......................] 1/4  loss 0.5000\r");
  int drawn = 0;
  for (int ms = 1; ms <= 1000; ++ms)
    if (!bar.draw("epoch 1/2", 2, 4, 10.5, start + milliseconds(ms)).empty()) ++drawn;
  CHECK(drawn == 4);
  // A shorter one goes over all of a longer one: it has nothing else to take it away with.
  CHECK(bar.draw("epoch 1/2", 3, 4, 0.5, start + milliseconds(2000)) ==
        "epoch 1/2 [######################........] 3/4  loss 0.5000 \r");
  CHECK(bar.clear() == std::string(59, ' ') + "\r");
  CHECK(bar.clear().empty());
  for (std::size_t columns = 0; columns < 100; ++columns) {
    ProgressBar narrow(columns, ProgressBar::Terminal::of_hvdrun);
    const std::string text = narrow.draw("epoch 1/2", 4, 4, 0.5, start);
    CHECK(text.size() <= std::max<std::size_t>(columns, 1));
  }
}

}  // namespace
}  // namespace hvdrun
