#include <filesystem>
#include <fstream>
#include <sys/stat.h>

#include "common/net/unix_stream.h"
#include "tests/catch.h"
#include "tests/unit/worker/labs/data/temporary_folder.h"
#include "worker/agent/output/file_sync.h"

namespace hvdrun {
namespace {

using namespace std::chrono_literals;

constexpr const char* kJob = "0123456789abcdef0123456789abcdef";

// A viewer that keeps files in memory.
struct FileSyncFixture {
  FileSyncFixture() {
    auto [a, b] = make_socket_pair();
    agent_side = std::make_shared<FrameChannel>(make_unix_stream(io, std::move(a)));
    viewer_side = std::make_shared<FrameChannel>(make_unix_stream(io, std::move(b)));
    agent_side->start([this](const Frame& frame) { CHECK(sync->take(frame)); },
                      [](std::error_code) {});
    viewer_side->start([this](const Frame& frame) { on_frame(frame); }, [](std::error_code) {});
    begin();
  }
  // An agent; another one, where there was one.
  void begin() {
    sync.reset();
    SyncFolder made = make_sync_folder({folder.path()}, kJob, 3);
    place = made.path;
    sync.emplace(io, std::move(made));
    sync->set_viewer(agent_side);
  }
  void on_frame(const Frame& frame) {
    FileFolder where;
    FileRemark remark;
    FileBegin first;
    FileData data;
    FileEnd last;
    if (frame.type == FileFolder::kType && !decode(frame.payload, where)) {
      if (where.done) left = where.left;
    } else if (frame.type == FileBegin::kType && !decode(frame.payload, first)) {
      under_way = first;
      bytes.clear();
    } else if (frame.type == FileData::kType && !decode(frame.payload, data)) {
      bytes += data.bytes;
      ahead += data.bytes.size();
      CHECK(ahead <= limits::kFileWindow);
      if (!takes) return;
      ahead -= data.bytes.size();
      viewer_side->send(FileCredit{static_cast<std::uint32_t>(data.bytes.size())});
    } else if (frame.type == FileEnd::kType && !decode(frame.payload, last)) {
      if (!last.whole) return void(++torn);
      if (keeps) kept[under_way.path] = bytes;
      viewer_side->send(FileKept{keeps});
    } else if (frame.type == FileRemark::kType && !decode(frame.payload, remark)) {
      said += remark.text + "\n";
    } else {
      FAIL("not a frame of files");
    }
  }
  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(place + "/" + name).parent_path());
    std::ofstream(place + "/" + name, std::ios::binary) << text;
  }
  template <class Done>
  bool run_until(Done done, std::chrono::milliseconds limit) {
    const auto begin = std::chrono::steady_clock::now();
    while (!done() && std::chrono::steady_clock::now() - begin < limit) io.run_for(10ms);
    return done();
  }
  bool finish() {
    bool is_done = false;
    sync->finish([&is_done] { is_done = true; });
    return run_until([&] { return is_done; }, 20s);
  }

  test::TemporaryFolder folder;
  boost::asio::io_context io{1};
  std::shared_ptr<FrameChannel> agent_side;
  std::shared_ptr<FrameChannel> viewer_side;
  std::string place;
  std::optional<FileSync> sync;
  std::map<std::string, std::string> kept;
  FileBegin under_way;
  std::string bytes;
  std::size_t ahead = 0;
  bool takes = true;
  bool keeps = true;
  int torn = 0;
  std::optional<std::uint32_t> left;
  std::string said;
};

TEST_CASE_METHOD(FileSyncFixture, "files come while ranks run and at the end", "[files]") {
  write("a", "one");
  write("deep/b", "");
  REQUIRE(run_until([&] { return kept.size() == 2; }, 20s));
  const std::string large(3'000'000, 'x');
  write("a", "two");
  write("c", large);
  CHECK(kept["a"] == "one");
  REQUIRE(finish());
  io.run_for(50ms);
  CHECK(kept == std::map<std::string, std::string>{{"a", "two"}, {"deep/b", ""}, {"c", large}});
  CHECK(left == 0U);
  CHECK_FALSE(std::filesystem::exists(place));
  CHECK(said.empty());
}

TEST_CASE_METHOD(FileSyncFixture, "a viewer that takes nothing is not sent more", "[files]") {
  takes = false;
  write("a", std::string(5'000'000, 'x'));
  REQUIRE(run_until([&] { return ahead == limits::kFileWindow; }, 20s));
  io.run_for(300ms);
  CHECK(ahead == limits::kFileWindow);
  // It goes meanwhile: the folder stays.
  bool is_done = false;
  sync->finish([&] { is_done = true; });
  CHECK_FALSE(is_done);
  sync->set_viewer(nullptr);
  CHECK(is_done);
  CHECK(std::filesystem::exists(place + "/a"));
}

TEST_CASE_METHOD(FileSyncFixture, "a file that changes on its way comes again", "[files]") {
  takes = false;
  write("a", std::string(2'000'000, 'x'));
  REQUIRE(run_until([&] { return ahead == limits::kFileWindow; }, 20s));
  const std::string after(2'000'000, 'y');
  write("a", after);
  takes = true;
  viewer_side->send(FileCredit{static_cast<std::uint32_t>(std::exchange(ahead, 0))});
  REQUIRE(run_until([&] { return kept.contains("a"); }, 20s));
  CHECK(torn == 1);
  CHECK(kept["a"] == after);
}

TEST_CASE_METHOD(FileSyncFixture, "what is not kept stays, and so does its folder", "[files]") {
  keeps = false;
  write("a", "1");
  REQUIRE(finish());
  io.run_for(50ms);
  CHECK(left == 1U);
  CHECK(std::filesystem::exists(place + "/a"));
  // The next agent of this host finds it.
  keeps = true;
  const std::string before = place;
  begin();
  CHECK(place == before);
  REQUIRE(finish());
  CHECK(kept["a"] == "1");
  CHECK_FALSE(std::filesystem::exists(place));
}

TEST_CASE_METHOD(FileSyncFixture, "an agent that gives up leaves only what was not brought",
                 "[files]") {
  write("a", "1");
  REQUIRE(run_until([&] { return kept.size() == 1; }, 20s));
  SECTION("all was") {
    sync.reset();
    CHECK_FALSE(std::filesystem::exists(place));
  }
  SECTION("a late one was not") {
    write("b", "2");
    sync.reset();
    CHECK(std::filesystem::exists(place + "/b"));
  }
}

TEST_CASE_METHOD(FileSyncFixture, "what is not brought is remarked, in the end too", "[files]") {
  std::filesystem::create_symlink("a", place + "/latest");
  REQUIRE(finish());
  io.run_for(50ms);
  CHECK(said == "a link below --sync-dir (latest, the first): it is not brought\n");
  CHECK_FALSE(std::filesystem::exists(place));
}

TEST_CASE("the folder of a host is its user's alone, and one agent's", "[files]") {
  const test::TemporaryFolder folder;
  const auto make = [&folder](std::uint32_t host, const std::string& first = "/nowhere") {
    return make_sync_folder({first, folder.path()}, kJob, host);
  };
  std::optional<SyncFolder> one = make(0);
  CHECK(one->path == folder / ("hvdrun-sync-" + std::string(kJob) + "-0"));
  const auto mode = [](const std::string& path) {
    struct stat info {};
    REQUIRE(::stat(path.c_str(), &info) == 0);
    return info.st_mode & 07777;
  };
  CHECK(mode(one->path) == 0700);
  const SyncFolder other = make(0);
  CHECK(other.path == one->path + ".2");
  // A rank may have changed it, or made it anew.
  ::chmod(one->path.c_str(), 0777);
  const std::string path = one->path;
  one.reset();
  CHECK(make(0).path == path);
  CHECK(mode(path) == 0700);
  std::filesystem::create_directory_symlink("/tmp",
                                            folder / ("hvdrun-sync-" + std::string(kJob) + "-1"));
  CHECK_THROWS_AS(make(1), std::system_error);
  CHECK_THROWS_AS(make_sync_folder({folder / "none"}, kJob, 0), std::system_error);
}

}  // namespace
}  // namespace hvdrun
