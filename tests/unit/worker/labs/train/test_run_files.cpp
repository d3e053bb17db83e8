#include <algorithm>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/unique_fd.h"
#include "tests/soak.h"
#include "tests/unit/worker/hvd/torch/catch_with_torch.h"
#include "tests/unit/worker/labs/data/temporary_folder.h"
#include "worker/labs/checkpoint/checked_file.h"
#include "worker/labs/checkpoint/checkpoint_folder.h"

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
  REQUIRE(folder.prepare("", "", error));
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
  CHECK(folder.prepare(temporary.path() + "/.", "", error));
  for (const std::string& from : {std::string(), temporary / "epoch-000001.ckpt"}) {
    error.clear();
    CHECK_FALSE(folder.prepare(from, "", error));
    CHECK_THAT(error, Catch::Contains("--resume " + temporary.path()));
  }
  temporary.write("file", "");
  error.clear();
  CHECK_FALSE(CheckpointFolder(temporary / "file", 1).prepare("", "", error));
  CHECK_THAT(error, Catch::StartsWith(temporary / "file" + ": "));
}

TEST_CASE("a job knows its own checkpoints, and those of nobody else", "[checkpoints]") {
  const TemporaryFolder temporary;
  const CheckpointFolder folder(temporary.path(), 2);
  std::string error;
  CHECK_FALSE(folder.is_of("a"));
  REQUIRE(folder.prepare("", "a", error));
  CHECK_FALSE(folder.is_of("a"));  // there are none yet
  write_epochs(folder, 1, 2);
  CHECK(folder.is_of("a"));
  CHECK_FALSE(folder.is_of("b"));
  CHECK_FALSE(folder.is_of(""));
  // One that is refused does not take them.
  CHECK_FALSE(folder.prepare("", "b", error));
  CHECK(folder.is_of("a"));
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
    // A name left by the moment between link and rename is gone as soon as the folder is used
    // again.
    error.clear();
    REQUIRE(folder.prepare(temporary.path(), "", error));
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

}  // namespace
}  // namespace hvdrun
