#include <filesystem>
#include <fstream>
#include <signal.h>
#include <sstream>
#include <sys/resource.h>
#include <sys/stat.h>

#include "cli/output/synced_files.h"
#include "cli/text/user_errors.h"
#include "tests/catch.h"
#include "tests/unit/worker/labs/data/temporary_folder.h"

namespace hvdrun {
namespace {

using Catch::Matchers::Contains;

struct SyncedFixture {
  SyncedFixture() {
    files.set_job([](std::uint32_t host) { return "node" + std::to_string(host); },
                  [this](const std::string& line) { said += line + "\n"; });
  }
  template <class M>
  std::optional<std::string> take(std::uint32_t host, const M& message) {
    return files.take(host, Frame{M::kType, 0, encode(message)});
  }
  // True: it was kept.
  bool bring(std::uint32_t host, const std::string& path, const std::string& bytes,
             std::uint64_t time_ns = 1'000'000'000'000'000'007) {
    REQUIRE(take(host, FileFolder{"/tmp/there"}) == "");
    REQUIRE(take(host, FileBegin{path, bytes.size(), 0640, time_ns}) == "");
    if (!bytes.empty())
      REQUIRE(take(host, FileData{bytes}) ==
              encode_frame(FileCredit{static_cast<std::uint32_t>(bytes.size())}));
    const auto answer = take(host, FileEnd{true});
    REQUIRE(answer);
    return *answer == encode_frame(FileKept{true});
  }
  std::string contents(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(folder / ("sync/" + name), std::ios::binary).rdbuf();
    return text.str();
  }
  // Everything in the folder, folders aside.
  std::size_t count() const {
    std::size_t number = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder / "sync"))
      if (!entry.is_directory()) ++number;
    return number;
  }

  test::TemporaryFolder folder;
  SyncedFiles files{folder / "sync", "--sync-dir", "0123456789abcdef"};
  std::string said;
};

TEST_CASE_METHOD(SyncedFixture, "a file is there whole or not at all", "[files]") {
  CHECK(bring(1, "ckpts/1.pt", "first"));
  CHECK(contents("ckpts/1.pt") == "first");
  struct stat info {};
  REQUIRE(::stat((folder / "sync/ckpts/1.pt").c_str(), &info) == 0);
  CHECK((info.st_mode & 07777) == 0640);
  CHECK(info.st_mtim.tv_sec == 1'000'000'000);
  CHECK(info.st_mtim.tv_nsec == 7);
  // Half of the next one.
  REQUIRE(take(1, FileBegin{"ckpts/1.pt", 6, 0600, 0}) == "");
  REQUIRE(take(1, FileData{"sec"}));
  CHECK(contents("ckpts/1.pt") == "first");
  SECTION("the other half comes") {
    REQUIRE(take(1, FileData{"ond"}));
    CHECK(take(1, FileEnd{true}) == encode_frame(FileKept{true}));
    CHECK(contents("ckpts/1.pt") == "second");
    CHECK(take(1, FileFolder{"/tmp/there", true, 0}) == "");
    files.forget(1);
    CHECK(said.empty());
  }
  SECTION("it has changed meanwhile") {
    CHECK(take(1, FileEnd{false}) == "");
    CHECK(contents("ckpts/1.pt") == "first");
    CHECK(said.empty());
  }
  SECTION("its host goes") {
    files.forget(1);
    CHECK(contents("ckpts/1.pt") == "first");
    CHECK_THAT(said, Contains("files below --sync-dir that have not come from node1 are there, in "
                              "/tmp/there"));
  }
  CHECK(count() == 1);
  CHECK(bring(2, "empty", ""));
  CHECK(count() == 2);
}

TEST_CASE_METHOD(SyncedFixture, "several hosts bring files at the same time", "[files]") {
  for (const std::uint32_t host : {1U, 2U}) {
    REQUIRE(take(host, FileFolder{"/tmp/there"}) == "");
    REQUIRE(take(host, FileBegin{"same", 4, 0600, 0}) == "");
  }
  for (const char* const half : {"on", "e!"}) REQUIRE(take(1, FileData{half}));
  for (const char* const half : {"tw", "o!"}) REQUIRE(take(2, FileData{half}));
  CHECK(take(2, FileEnd{true}) == encode_frame(FileKept{true}));
  CHECK(contents("same") == "two!");
  CHECK(take(1, FileEnd{true}) == encode_frame(FileKept{true}));
  CHECK(contents("same") == "one!");
  CHECK(said == "same below --sync-dir was written by node2 and by node1: the later one stays\n");
}

TEST_CASE_METHOD(SyncedFixture, "a host that is back does not undo what came since", "[files]") {
  CHECK(bring(1, "best.pt", "old", 10));
  CHECK(bring(2, "best.pt", "newer", 20));
  // It has nothing to remember what it had brought by.
  CHECK(bring(1, "best.pt", "old", 10));
  CHECK(contents("best.pt") == "newer");
  CHECK(bring(2, "best.pt", "newer", 20));
  CHECK(bring(1, "best.pt", "newest", 30));
  CHECK(contents("best.pt") == "newest");
  // One host may put an older one in the place of a newer one.
  CHECK(bring(1, "best.pt", "old", 10));
  CHECK(contents("best.pt") == "old");
  CHECK(count() == 1);
}

TEST_CASE_METHOD(SyncedFixture, "a file of a rank on this machine is not replaced unsaid",
                 "[files]") {
  folder.write("sync/log", "ours");
  CHECK(bring(1, "log", "theirs", 10));
  CHECK(contents("log") == "ours");
  CHECK(said ==
        "log below --sync-dir was written by this machine and by node1: the later one "
        "stays\n");
  CHECK(bring(1, "log", "theirs", 4'000'000'000'000'000'000));
  CHECK(contents("log") == "theirs");
}

TEST_CASE_METHOD(SyncedFixture, "a folder that a rank has made anew is the folder", "[files]") {
  CHECK(bring(1, "a", "1"));
  std::filesystem::remove_all(folder / "sync");
  CHECK(bring(1, "b", "2"));
  CHECK(contents("b") == "2");
}

TEST_CASE_METHOD(SyncedFixture, "a remark of an agent is one line", "[files]") {
  CHECK_FALSE(take(1, FileRemark{"x"}));
  REQUIRE(take(1, FileFolder{"/tmp/there"}) == "");
  CHECK(take(1, FileRemark{"a link\n\x1b[2J"}) == "");
  CHECK(said == "node1: a link\\n\\x1b[2J\n");
}

TEST_CASE_METHOD(SyncedFixture, "what an agent must not say is not understood", "[files]") {
  // Without its folder it says nothing.
  CHECK_FALSE(take(1, FileBegin{"a", 1, 0600, 0}));
  REQUIRE(take(1, FileFolder{"/tmp/there"}) == "");
  CHECK_FALSE(take(1, FileData{"x"}));
  CHECK_FALSE(take(1, FileEnd{true}));
  for (const char* const path : {"../a", "/etc/passwd", "a/../../b", ".hvdrun-1-1", ""})
    CHECK_FALSE(take(1, FileBegin{path, 1, 0600, 0}));
  REQUIRE(take(1, FileBegin{"a", 2, 04777, 0}) == "");
  CHECK_FALSE(take(1, FileBegin{"b", 1, 0600, 0}));
  CHECK_FALSE(take(1, FileData{""}));
  CHECK_FALSE(take(1, FileData{"xyz"}));
  REQUIRE(take(1, FileData{"x"}));
  CHECK_FALSE(take(1, FileEnd{true}));
  REQUIRE(take(1, FileData{"y"}));
  CHECK(take(1, FileEnd{true}) == encode_frame(FileKept{true}));
  struct stat info {};
  REQUIRE(::stat((folder / "sync/a").c_str(), &info) == 0);
  CHECK((info.st_mode & 07777) == 0777);
  CHECK_FALSE(take(1, Credit{1, 2}));
  CHECK_FALSE(files.take(1, Frame{MessageType::file_begin, 0, "x"}));
}

TEST_CASE_METHOD(SyncedFixture, "links on this side are not followed", "[files]") {
  std::filesystem::create_directories(folder / "outside");
  std::filesystem::create_directory_symlink(folder / "outside", folder / "sync/out");
  folder.write("outside/mine", "mine");
  std::filesystem::create_symlink(folder / "outside/mine", folder / "sync/link");
  CHECK_FALSE(bring(1, "out/mine", "theirs"));
  CHECK_THAT(said, Contains("/sync/out/mine: ") && Contains("; it stays on node1, in /tmp/there"));
  CHECK(bring(1, "link", "theirs"));
  CHECK(std::filesystem::is_regular_file(std::filesystem::symlink_status(folder / "sync/link")));
  CHECK(contents("link") == "theirs");
  std::ifstream mine(folder / "outside/mine");
  CHECK(std::string(std::istreambuf_iterator<char>(mine), {}) == "mine");
}

TEST_CASE_METHOD(SyncedFixture, "what cannot be kept is named, a few times", "[files]") {
  CHECK(bring(1, "fits", std::string(100, 'x')));
  rlimit before{};
  REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
  rlimit small = before;
  small.rlim_cur = 10;
  const auto was = ::signal(SIGXFSZ, SIG_IGN);
  REQUIRE(::setrlimit(RLIMIT_FSIZE, &small) == 0);
  for (int i = 0; i < 6; ++i) {
    const bool kept = bring(1, "large" + std::to_string(i), std::string(100, 'y'));
    if (kept) FAIL("kept beyond the limit");
  }
  const bool overwrites = bring(1, "fits", std::string(100, 'y'));
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, was);
  CHECK_FALSE(overwrites);
  CHECK(contents("fits") == std::string(100, 'x'));
  CHECK(count() == 1);
  CHECK_THAT(said, Contains("large0: File too large; it stays on node1, in /tmp/there\n"));
  CHECK_THAT(said, Contains("large3: File too large; it stays on node1, in /tmp/there (further "
                            "ones are not named)"));
  CHECK_THAT(said, !Contains("large4"));
  CHECK(take(1, FileFolder{"/tmp/there", true, 7}) == "");
  CHECK_THAT(said, Contains("7 files below --sync-dir stayed on node1, in /tmp/there"));
}

TEST_CASE("a folder that cannot be is named before anything starts", "[files]") {
  const test::TemporaryFolder folder;
  folder.write("file", "");
  CHECK_THROWS_AS(SyncedFiles(folder / "file/sync", "--sync-dir", "1"), UsageError);
  try {
    const SyncedFiles files(folder / "file", "OCI__SYNC_DIR", "1");
    FAIL("no error");
  } catch (const UsageError& e) {
    CHECK_THAT(e.what(), Contains("OCI__SYNC_DIR: ") && Contains("Not a directory") &&
                             Contains("; name a folder that can be written to"));
  }
}

}  // namespace
}  // namespace hvdrun
