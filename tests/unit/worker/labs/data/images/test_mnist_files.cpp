#include <cerrno>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/catch.h"
#include "tests/unit/other_user.h"
#include "tests/unit/refused_flush.h"
#include "tests/unit/worker/labs/data/temporary_folder.h"
#include "worker/labs/data/files/gzip.h"
#include "worker/labs/data/files/whole_file.h"
#include "worker/labs/data/images/mnist_files.h"
#include "worker/labs/data/synthetic/synthetic_digits.h"

namespace hvdrun {
namespace {

using test::RefusedFlush;
using test::TemporaryFolder;

std::string read_error(const TemporaryFolder& folder) {
  std::string error;
  CHECK_FALSE(read_mnist(folder.path(), Split::train, error));
  CHECK(error.find('\n') == std::string::npos);
  const std::string prefix = folder.path() + "/";
  CHECK(error.rfind(prefix, 0) == 0);
  return error.substr(prefix.size());
}

TEST_CASE("a set is found under every spelling of its names", "[mnist]") {
  const TemporaryFolder folder;
  const auto data = synthetic_digits(Split::test, 4, 1);
  const std::string images = encode_idx_images(data.images);
  const std::string labels = encode_idx_labels(data.labels);
  const std::string extension = GENERATE("", ".gz");
  const std::string separator = GENERATE("-", ".");
  CAPTURE(extension, separator);
  const auto pack = [&](const std::string& b) { return extension.empty() ? b : gzip(b); };
  folder.write("t10k-images" + separator + "idx3-ubyte" + extension, pack(images));
  folder.write("t10k-labels" + separator + "idx1-ubyte" + extension, pack(labels));
  std::string error;
  const auto back = read_mnist(folder.path(), Split::test, error);
  CHECK(error.empty());
  REQUIRE(back);
  CHECK(back->images.pixels == data.images.pixels);
  CHECK(back->labels == data.labels);
}

TEST_CASE("each fault of a set is one line that begins with the file", "[mnist]") {
  const TemporaryFolder folder;
  std::string error;
  const auto data = synthetic_digits(Split::train, 5, 1);
  REQUIRE(write_mnist(folder.path(), Split::train, data, false, error));

  SECTION("no fault") { CHECK(read_mnist(folder.path(), Split::train, error)); }
  SECTION("missing") {
    std::filesystem::remove(folder / "train-labels-idx1-ubyte");
    CHECK(read_error(folder) ==
          "train-labels-idx1-ubyte: not found, nor with .gz; make a set with "
          "scripts/make-dataset");
  }
  SECTION("truncated") {
    std::filesystem::resize_file(folder / "train-images-idx3-ubyte", 1000);
    CHECK(read_error(folder) ==
          "train-images-idx3-ubyte: byte 1000: 3936 bytes expected for 5 images of 28x28, 1000 "
          "found");
  }
  SECTION("empty") {
    folder.write("train-labels-idx1-ubyte", "");
    CHECK(read_error(folder) ==
          "train-labels-idx1-ubyte: byte 0: an IDX header of 8 bytes expected, 0 found");
  }
  SECTION("other dimensions") {
    IdxImages small;
    small.count = 5;
    small.rows = 8;
    small.columns = 9;
    small.pixels.resize(5 * 72);
    folder.write("train-images-idx3-ubyte", encode_idx_images(small));
    CHECK(read_error(folder) == "train-images-idx3-ubyte: images of 8x9, 28x28 expected");
  }
  SECTION("fewer labels than images") {
    folder.write("train-labels-idx1-ubyte", encode_idx_labels({1, 2, 3}));
    CHECK(read_error(folder) == "train-labels-idx1-ubyte: 3 labels, but 5 images in " +
                                    folder.path() + "/train-images-idx3-ubyte");
  }
  SECTION("a folder in place of a file") {
    std::filesystem::remove(folder / "train-images-idx3-ubyte");
    std::filesystem::create_directory(folder / "train-images-idx3-ubyte");
    CHECK(read_error(folder) == "train-images-idx3-ubyte: not a regular file");
  }
  SECTION("a pipe in place of a file does not block") {
    std::filesystem::remove(folder / "train-images-idx3-ubyte");
    REQUIRE(::mkfifo((folder / "train-images-idx3-ubyte").c_str(), 0600) == 0);
    CHECK(read_error(folder) == "train-images-idx3-ubyte: not a regular file");
  }
}

TEST_CASE("a file over the limit is not read", "[file]") {
  const TemporaryFolder folder;
  folder.write("big", "12345");
  std::string error;
  CHECK(read_whole_file(folder / "big", 5, error) == "12345");
  CHECK_FALSE(read_whole_file(folder / "big", 4, error));
  CHECK(error == folder / "big" + ": 5 bytes, at most 4 expected");
}

TEST_CASE("a file is replaced as a whole and leaves nothing beside it", "[file]") {
  const TemporaryFolder folder;
  std::string error;
  REQUIRE(write_whole_file(folder / "file", "old", error));
  REQUIRE(write_whole_file(folder / "file", "new", error));
  CHECK(read_whole_file(folder / "file", 100, error) == "new");
  std::filesystem::create_directory(folder / "folder");
  CHECK_FALSE(write_whole_file(folder / "folder", "x", error));
  CHECK(error == folder / "folder" + ": Is a directory");
  CHECK_FALSE(write_whole_file(folder / "none/file", "x", error));
  std::size_t entries = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    ++entries;
  }
  CHECK(entries == 2);
}

TEST_CASE("a folder that cannot be flushed is no fault, one that fails to be is", "[file]") {
  const TemporaryFolder folder;
  std::string error;
  for (const int refusal : {EINVAL, ENOTSUP}) {
    const RefusedFlush refused(refusal);
    CHECK(write_whole_file(folder / "file", std::to_string(refusal), error));
    CHECK(refused.asked() == 1);
    CHECK(read_whole_file(folder / "file", 100, error) == std::to_string(refusal));
  }
  CHECK(error.empty());
  const RefusedFlush broken(EIO);
  CHECK_FALSE(write_whole_file(folder / "file", "new", error));
  CHECK(error == folder.path() + ": Input/output error");
}

TEST_CASE("a folder that may be written and not read takes a file", "[file]") {
  if (!test::can_be_other_user("a folder that may be written and not read")) return;
  const TemporaryFolder folder;
  REQUIRE(::chown(folder.path().c_str(), test::kOtherUser, test::kOtherUser) == 0);
  REQUIRE(::chmod(folder.path().c_str(), 0300) == 0);
  CHECK(test::wait_for(test::fork_as(test::kOtherUser, [&] {
          std::string error;
          return write_whole_file(folder / "file", "x", error) ? 0 : 1;
        })) == 0);
}

}  // namespace
}  // namespace hvdrun
