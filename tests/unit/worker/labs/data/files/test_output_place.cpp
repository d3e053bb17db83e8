// Every kind of thing that can stand at the name of a file of output.
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <tuple>
#include <unistd.h>

#include "common/base/output_place.h"
#include "tests/catch.h"
#include "tests/unit/worker/labs/data/temporary_folder.h"
#include "worker/labs/data/files/whole_file.h"

namespace hvdrun {
namespace {

namespace fs = std::filesystem;
using test::TemporaryFolder;

std::string content_of(const std::string& path) {
  std::string error;
  return read_whole_file(path, 1000, error).value_or(error);
}

TEST_CASE("a file of output goes where its name leads, and no link is lost", "[file]") {
  const TemporaryFolder folder;
  fs::create_directory(folder / "there");
  folder.write("there/file", "old");
  fs::create_symlink("there/file", folder / "link");
  fs::create_symlink(folder / "link", folder / "link-to-link");
  fs::create_symlink("there/new", folder / "dangling");
  fs::create_symlink("there", folder / "folder-link");
  const auto [name, target] = GENERATE(table<std::string, std::string>({
      {"none", "none"},
      {"there/file", "there/file"},
      {"link", "there/file"},
      {"link-to-link", "there/file"},
      {"dangling", "there/new"},
      {"folder-link/file", "there/file"},
  }));
  CAPTURE(name);
  const auto kind = fs::symlink_status(folder / name).type();
  std::string error;
  CHECK(can_write_file(folder / name, error));
  CHECK(write_whole_file(folder / name, "new", error));
  CHECK(error.empty());
  CHECK(content_of(folder / target) == "new");
  CHECK(fs::is_regular_file(fs::symlink_status(folder / target)));
  if (kind == fs::file_type::symlink) CHECK(fs::is_symlink(folder / name));
  // Nothing beside them.
  const auto here = fs::directory_iterator(folder.path());
  CHECK(std::distance(here, fs::directory_iterator()) == (name == "none" ? 6 : 5));
}

TEST_CASE("what is no file is written to, and stays what it is", "[file]") {
  const TemporaryFolder folder;
  std::string error;
  CHECK(write_whole_file("/dev/null", "x", error));
  struct stat info {};
  REQUIRE(::stat("/dev/null", &info) == 0);
  CHECK(S_ISCHR(info.st_mode));
  CHECK_FALSE(write_whole_file("/dev/full", "x", error));
  CHECK(error == "/dev/full: No space left on device");
  fs::create_symlink("/dev/null", folder / "null");
  CHECK(write_whole_file(folder / "null", "x", error));
  CHECK(fs::is_symlink(folder / "null"));
  // A pipe, and its name by descriptor, as >(gzip) has it.
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK_FALSE(write_whole_file(folder / "pipe", "x", error));
  CHECK(error == folder / "pipe" + ": a pipe that nobody reads, or a socket");
  const UniqueFd reader(::open((folder / "pipe").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  char bytes[16] = {};
  for (const std::string& name : {folder / "pipe", "/dev/fd/" + std::to_string(reader.get())}) {
    CAPTURE(name);
    CHECK(can_write_file(name, error));
    CHECK(write_whole_file(name, "bytes", error));
    CHECK(::read(reader.get(), bytes, sizeof bytes) == 5);
  }
  CHECK(fs::is_fifo(folder / "pipe"));
}

TEST_CASE("a descriptor's name is written behind what is there", "[file]") {
  const TemporaryFolder folder;
  folder.write("file", "before ");
  const UniqueFd fd(::open((folder / "file").c_str(), O_WRONLY | O_APPEND | O_CLOEXEC));
  std::string error;
  CHECK(write_whole_file("/dev/fd/" + std::to_string(fd.get()), "after", error));
  CHECK(content_of(folder / "file") == "before after");
}

TEST_CASE("a stream goes where its name leads, anew or at the end", "[file]") {
  const TemporaryFolder folder;
  const auto begin = GENERATE(Begin::anew, Begin::at_end);
  folder.write("file", "old ");
  fs::create_symlink("file", folder / "link");
  fs::create_symlink("new", folder / "dangling");
  const std::string kept = begin == Begin::anew ? "" : "old ";
  for (const auto& [name, target, before] :
       {std::tuple{"link", "file", kept}, std::tuple{"dangling", "new", std::string()}}) {
    CAPTURE(name);
    const UniqueFd stream = open_output_stream(folder / name, begin);
    REQUIRE(stream);
    CHECK(write_all(stream.get(), "line\n"));
    CHECK(fs::is_symlink(folder / name));
    CHECK(content_of(folder / target) == before + "line\n");
  }
  CHECK(write_all(open_output_stream("/dev/null", begin).get(), "line"));
  // A slow reader of a pipe is waited for or not.
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK_FALSE(open_output_stream(folder / "pipe", begin));
  CHECK(errno == ENXIO);
  const UniqueFd reader(::open((folder / "pipe").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  for (const auto slow : {SlowReader::waited_for, SlowReader::not_waited_for}) {
    const UniqueFd stream = open_output_stream(folder / "pipe", begin, slow);
    REQUIRE(stream);
    const bool waits = (::fcntl(stream.get(), F_GETFL) & O_NONBLOCK) == 0;
    CHECK(waits == (slow == SlowReader::waited_for));
  }
}

TEST_CASE("what cannot be a file of output is said before anything is written", "[file]") {
  const TemporaryFolder folder;
  fs::create_directory(folder / "folder");
  fs::create_symlink("loop", folder / "loop");
  fs::create_symlink("none/file", folder / "to-none");
  folder.write("file", "");
  const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  (folder / "socket").copy(address.sun_path, sizeof address.sun_path - 1);
  REQUIRE(::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  const auto [name, expected] = GENERATE(table<std::string, int>({
      {"folder", EISDIR},
      {"loop", ELOOP},
      {"to-none", ENOENT},
      {"none/file", ENOENT},
      {"file/below", ENOTDIR},
      {"socket", ENXIO},
  }));
  CAPTURE(name);
  std::string error;
  CHECK(check_output(folder / name) == expected);
  CHECK_FALSE(can_write_file(folder / name, error));
  CHECK(error.starts_with(folder / name + ": "));
  CHECK_FALSE(write_whole_file(folder / name, "x", error));
}

}  // namespace
}  // namespace hvdrun
