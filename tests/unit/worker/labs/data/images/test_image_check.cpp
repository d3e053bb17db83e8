// Images looked at without decoding them.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>

#include "tests/catch.h"
#include "tests/unit/worker/labs/data/temporary_folder.h"
#include "worker/labs/data/files/example.h"
#include "worker/labs/data/images/image.h"
#include "worker/labs/data/images/image_check.h"
#include "worker/labs/data/images/image_source.h"
#include "worker/labs/data/synthetic/synthetic_patterns.h"

namespace hvdrun {
namespace {

using Catch::Matchers::Contains;
using Catch::Matchers::StartsWith;

std::string patterned(bool as_png, std::size_t side = 60) {
  SplitMix random(3);
  const Image image = synthetic_pattern(5, side, side, random);
  return as_png ? encode_png(image) : encode_jpeg(image, 90);
}

bool seems_whole(const std::string& bytes) {
  return looks_whole(bytes.size(), [&](std::uint64_t at, std::size_t count) {
    return bytes.substr(std::min<std::size_t>(bytes.size(), at), count);
  });
}

// With a segment of so many bytes before the frame, as cameras put their thumbnails there.
std::string with_segment(const std::string& jpeg, std::size_t bytes) {
  std::string segment = "\xff\xe1";
  segment.push_back(static_cast<char>((bytes + 2) >> 8));
  segment.push_back(static_cast<char>((bytes + 2) & 0xff));
  return jpeg.substr(0, 2) + segment + std::string(bytes, '\xd9') + jpeg.substr(2);
}

std::vector<ClassFolders::File> listed(const test::TemporaryFolder& folder) {
  std::string error;
  const auto found = list_class_folders(folder.path(), error);
  REQUIRE(found);
  return found->files;
}

LookOver whole_look(std::size_t part = 0, std::size_t parts = 1, std::size_t threads = 2) {
  LookOver how;
  how.part = part;
  how.parts = parts;
  how.threads = threads;
  how.until = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  return how;
}

TEST_CASE("whole files look whole, cut ones do not", "[check]") {
  const bool as_png = GENERATE(true, false);
  const std::string bytes = patterned(as_png);
  CHECK(seems_whole(bytes));
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    CAPTURE(as_png, size);
    REQUIRE_FALSE(seems_whole(bytes.substr(0, size)));
  }
  // The right length is not enough where a copy has been broken off.
  std::string zeros = bytes;
  std::fill(zeros.begin() + static_cast<std::ptrdiff_t>(bytes.size() / 2), zeros.end(), '\0');
  CHECK_FALSE(seems_whole(zeros));
}

TEST_CASE("a JPEG's frame is found behind what stands before it", "[check]") {
  std::string bytes = patterned(false);
  for (const std::size_t before : {100U, 5000U, 60'000U}) {
    bytes = with_segment(bytes, before);
    CHECK(seems_whole(bytes));
    CHECK_FALSE(seems_whole(bytes.substr(0, bytes.size() - 2)));
  }
  const auto frame = bytes.find("\xff\xc0\x00\x11", 0, 3);
  REQUIRE(frame != std::string::npos);
  bytes[frame + 5] = bytes[frame + 7] = '\x7f';
  CHECK_FALSE(seems_whole(bytes));
}

TEST_CASE("impossible sizes are seen", "[check]") {
  std::string bytes = patterned(true);
  bytes[17] = '\x7f';
  CHECK_FALSE(seems_whole(bytes));
  bytes[17] = bytes[19] = '\0';
  CHECK_FALSE(seems_whole(bytes));
}

TEST_CASE("what is bad in a folder is found before anything is trained, by any number of ranks",
          "[check]") {
  const test::TemporaryFolder folder;
  std::filesystem::create_directory(folder / "a");
  const std::string jpeg = patterned(false);
  const std::string png = patterned(true);
  for (int i = 0; i < 30; ++i)
    folder.write("a/" + std::to_string(100 + i) + (i % 2 == 0 ? ".jpg" : ".png"),
                 i % 2 == 0 ? jpeg : png);
  // Bytes that other programs write behind the end, or leave out, are no fault.
  folder.write("a/200.jpg", jpeg + std::string(10'000, 'x'));
  folder.write("a/201.png", png + "more");
  folder.write("a/202.png", png.substr(0, png.size() - 12));
  CHECK(look_over(*folder_source(listed(folder), 1), whole_look()).count == 0);
  folder.write("a/300.jpg", "");
  folder.write("a/301.jpg", jpeg.substr(0, jpeg.size() / 2));
  folder.write("a/302.png", png.substr(0, png.size() / 2));
  folder.write("a/303.png", "no picture");
  const auto source = folder_source(listed(folder), 1);
  std::filesystem::remove(folder / "a/100.jpg");
  std::filesystem::create_symlink("100.jpg", folder / "a/100.jpg");
  for (const std::size_t parts : {1U, 3U, 100U}) {
    BadSamples all;
    for (std::size_t part = 0; part < parts; ++part)
      all.add(look_over(*source, whole_look(part, parts)));
    CHECK(all.count == 5);
  }
  const BadSamples bad = look_over(*source, whole_look(0, 1, 5));
  CHECK_THAT(bad.text(), StartsWith(folder / "a/100.jpg: ") &&
                             Contains(folder / "a/300.jpg: byte 0: an empty file") &&
                             Contains(folder / "a/301.jpg: JPEG: damaged at byte ") &&
                             Catch::EndsWith("; and 2 more"));
  // Without time nothing is looked at.
  LookOver late = whole_look();
  late.until = std::chrono::steady_clock::now() - std::chrono::seconds(1);
  CHECK(look_over(*source, late).count == 0);
}

TEST_CASE("what is bad in a shard is found, too", "[check]") {
  const test::TemporaryFolder folder;
  const std::string jpeg = patterned(false);
  std::string shard;
  for (const bool good : {true, false, true}) {
    const std::string image = good ? jpeg : jpeg.substr(0, 1000);
    Example example;
    example.add("image/encoded", {{image}, {}, {}});
    example.add("image/class/label", {{}, {}, {1}});
    shard += encode_record(encode_example(example));
  }
  folder.write("train-00000-of-00001", shard);
  std::string error;
  const auto source = shard_source(folder.path(), "train", 10, error);
  REQUIRE(source);
  const BadSamples bad = look_over(*source, whole_look());
  CHECK(bad.count == 1);
  CHECK_THAT(bad.text(), StartsWith(folder / "train-00000-of-00001: record 1: JPEG: damaged"));
}

}  // namespace
}  // namespace hvdrun
