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
    place = make_sync_folder(folder.path(), kJob, 3);
    sync.emplace(io, place, [this](const std::string& line) { said += line + "\n"; });
    sync->set_viewer(agent_side);
  }
  void on_frame(const Frame& frame) {
    FileFolder where;
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
  sync.reset();
  CHECK(make_sync_folder(folder.path(), kJob, 3) == place);
  sync.emplace(io, place, [](const std::string&) {});
  sync->set_viewer(agent_side);
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

TEST_CASE("the folder of a host is its user's alone", "[files]") {
  const test::TemporaryFolder folder;
  const std::string place = make_sync_folder(folder.path(), kJob, 0);
  struct stat info {};
  REQUIRE(::stat(place.c_str(), &info) == 0);
  CHECK((info.st_mode & 07777) == 0700);
  ::chmod(place.c_str(), 0770);
  CHECK_THROWS_AS(make_sync_folder(folder.path(), kJob, 0), std::system_error);
  std::filesystem::create_directory_symlink("/tmp", place.substr(0, place.size() - 1) + "1");
  CHECK_THROWS_AS(make_sync_folder(folder.path(), kJob, 1), std::system_error);
  CHECK_THROWS_AS(make_sync_folder(folder / "none", kJob, 0), std::system_error);
}

}  // namespace
}  // namespace hvdrun
