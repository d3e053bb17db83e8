#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/catch.h"
#include "tests/unit/worker/labs/data/temporary_folder.h"
#include "worker/agent/output/folder_scan.h"

namespace hvdrun {
namespace {

using namespace std::chrono_literals;
using Catch::Matchers::Contains;

struct ScanFixture {
  // All that is ready at a look a second later, as brought.
  void only_look(bool last = false) {
    time += 1s;
    scan.begin_look(time, last);
    // A step at a time.
    while (!scan.look_on({})) {
    }
  }
  std::vector<std::string> look(bool last = false) {
    only_look(last);
    std::vector<std::string> paths;
    while (const auto file = scan.next(time)) {
      paths.push_back(file->path);
      scan.brought(*file);
    }
    return paths;
  }
  using Paths = std::vector<std::string>;

  test::TemporaryFolder folder;
  FolderScan scan{folder.path()};
  std::chrono::steady_clock::time_point time{};
};

TEST_CASE_METHOD(ScanFixture, "a file is ready once it rests, and again once it has changed",
                 "[files]") {
  CHECK(look().empty());
  folder.write("a", "1");
  std::filesystem::create_directories(folder / "deep/er");
  folder.write("deep/er/b", "2");
  CHECK(look().empty());
  CHECK(look() == Paths{"a", "deep/er/b"});
  CHECK(look().empty());
  CHECK(scan.left() == 0);
  folder.write("a", "12");
  CHECK(look().empty());
  CHECK(scan.left() == 1);
  CHECK(look() == Paths{"a"});
  // Another one in its place, as checkpoints are written.
  folder.write("next", "x");
  std::filesystem::rename(folder / "next", folder / "a");
  CHECK(look().empty());
  CHECK(look() == Paths{"a"});
  std::filesystem::remove(folder / "a");
  CHECK(look().empty());
  CHECK(scan.left() == 0);
  CHECK(scan.take_remarks().empty());
}

TEST_CASE_METHOD(ScanFixture, "a file that is open for writing is not ready before it is quiet",
                 "[files]") {
  folder.write("a", "begun");
  const UniqueFd writer(::open((folder / "a").c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  REQUIRE(writer);
  look();
  CHECK(look().empty());
  REQUIRE(::write(writer.get(), "more", 4) == 4);
  for (int second = 0; second < 5; ++second) CHECK(look().empty());
  CHECK(look() == Paths{"a"});
  REQUIRE(::write(writer.get(), "more", 4) == 4);
  CHECK(look().empty());
  CHECK(look().empty());
  // At the end nobody is waited for.
  CHECK(look(true) == Paths{"a"});
  CHECK(look(true).empty());
}

// Writes to mapped memory change no time.
TEST_CASE_METHOD(ScanFixture, "a file that was brought while it was open comes again at the end",
                 "[files]") {
  folder.write("a", "begun");
  UniqueFd writer(::open((folder / "a").c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  for (int second = 0; second < 5; ++second) look();
  look();
  CHECK(look().empty());
  CHECK(scan.left() == 1);
  writer.reset();
  CHECK(look().empty());
  CHECK(look(true) == Paths{"a"});
  CHECK(scan.left() == 0);
}

TEST_CASE_METHOD(ScanFixture, "a file that has changed since the look is none", "[files]") {
  folder.write("a", "1");
  only_look();
  only_look();
  folder.write("a", "22");
  CHECK_FALSE(scan.next(time));
  CHECK(scan.left() == 1);
}

TEST_CASE_METHOD(ScanFixture, "a file that cannot be kept stays, until it changes", "[files]") {
  folder.write("a", "1");
  only_look(true);
  scan.failed(*scan.next(time));
  CHECK(scan.left() == 1);
  CHECK(look(true).empty());
  CHECK(scan.left() == 1);
  folder.write("a", "12");
  CHECK(look(true) == Paths{"a"});
  CHECK(scan.left() == 0);
}

TEST_CASE_METHOD(ScanFixture, "what is no plain file is named once, and not followed", "[files]") {
  std::filesystem::create_directories(folder / "in");
  folder.write("in/a", "1");
  std::filesystem::create_symlink("a", folder / "in/link");
  std::filesystem::create_symlink("/etc", folder / "folder link");
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  const UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{AF_UNIX, {}};
  (folder / "sock").copy(address.sun_path, sizeof address.sun_path - 1);
  REQUIRE(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0);
  folder.write("odd\nname", "1");
  folder.write(".hvdrun-5-0", "1");
  look();
  CHECK(look() == Paths{"in/a"});
  const auto remarks = scan.take_remarks();
  CHECK(remarks.size() == 4);
  CHECK(scan.left() == 1);  // the odd name
  std::string all;
  for (const std::string& remark : remarks) all += remark + "\n";
  CHECK_THAT(all, Contains("a link below --sync-dir ("));
  CHECK_THAT(all, Contains("a named pipe below --sync-dir (pipe, the first): it is not brought"));
  CHECK_THAT(all, Contains("a socket below --sync-dir (sock, the first)"));
  CHECK_THAT(all, Contains("a name that is too long, too deep, or has control characters below "));
  look();
  CHECK(scan.take_remarks().empty());
}

TEST_CASE("no more files are looked at than there may be", "[files]") {
  const test::TemporaryFolder folder;
  for (int i = 0; i < 20; ++i) folder.write("f" + std::to_string(i), "1");
  FolderScan scan(folder.path(), 10);
  scan.begin_look({}, true);
  while (!scan.look_on({})) {
  }
  int count = 0;
  while (const auto file = scan.next({})) {
    scan.brought(*file);
    ++count;
  }
  CHECK(count == 10);
  CHECK(scan.left() > 0);
  const auto remarks = scan.take_remarks();
  REQUIRE(remarks.size() == 1);
  CHECK_THAT(remarks[0], Contains("more than 10 files and folders below --sync-dir"));
}

TEST_CASE_METHOD(ScanFixture, "no folder is too deep without a word", "[files]") {
  std::string path = ".";
  for (std::size_t depth = 1; depth < limits::kMaxFileDepth; ++depth) path += "/d";
  std::filesystem::create_directories(folder / (path + "/d"));
  folder.write(path + "/a", "1");
  look(true);
  CHECK(scan.left() == 1);
  std::filesystem::remove(folder / (path + "/d"));
  CHECK(look(true).empty());
  CHECK(scan.left() == 0);
}

TEST_CASE_METHOD(ScanFixture, "a folder that cannot be read is not an empty one", "[files]") {
  const std::string moved = folder.path() + ".moved";
  folder.write("a", "1");
  look(true);
  std::filesystem::rename(folder.path(), moved);
  std::filesystem::create_directory_symlink(moved, folder.path());
  look(true);
  CHECK(scan.left() == 1);
  REQUIRE(scan.take_remarks().size() == 1);
  scan.remove();
  std::filesystem::remove(folder.path());
  CHECK(std::filesystem::exists(moved + "/a"));
  // One that is gone is.
  look(true);
  CHECK(scan.left() == 0);
  std::filesystem::rename(moved, folder.path());
}

TEST_CASE_METHOD(ScanFixture, "only what has been brought is removed", "[files]") {
  std::filesystem::create_directories(folder / "in/er");
  folder.write("in/er/a", "1");
  folder.write("in/b", "1");
  std::filesystem::create_symlink("/etc", folder / "in/link");
  CHECK(look(true) == Paths{"in/b", "in/er/a"});
  folder.write("in/b", "12");
  folder.write("late", "1");
  scan.remove();
  CHECK(std::filesystem::exists(folder / "in/b"));
  CHECK(std::filesystem::exists(folder / "late"));
  CHECK_FALSE(std::filesystem::exists(folder / "in/er"));
  CHECK_FALSE(std::filesystem::exists(std::filesystem::symlink_status(folder / "in/link")));
  look(true);
  scan.remove();
  CHECK_FALSE(std::filesystem::exists(folder.path()));
}

}  // namespace
}  // namespace hvdrun
