// Where images come from: folders, shards, and what is made up.
#include <algorithm>
#include <filesystem>
#include <map>
#include <sstream>
#include <sys/resource.h>

#include "tests/catch.h"
#include "tests/unit/worker/labs/data/temporary_folder.h"
#include "worker/labs/data/files/example.h"
#include "worker/labs/data/files/gzip.h"
#include "worker/labs/data/files/whole_file.h"
#include "worker/labs/data/images/image.h"
#include "worker/labs/data/images/image_source.h"
#include "worker/labs/data/synthetic/synthetic_patterns.h"

using namespace hvdrun;
using Catch::Matchers::Contains;
using hvdrun::test::TemporaryFolder;

TEST_CASE("class folders are classes by name; folders without images are told", "[image]") {
  const TemporaryFolder folder;
  std::string error;
  const std::string png = encode_png(Image{4, 4, std::vector<std::uint8_t>(48, 7)});
  for (const char* name : {"b", "a", "empty", ".hidden"})
    std::filesystem::create_directory(folder.path() + "/" + name);
  for (const char* name : {"b/2.PNG", "b/1.jpg", "a/x.jpeg", "a/notes.txt", ".hidden/y.png"})
    REQUIRE(write_whole_file(folder.path() + "/" + name, png, error));
  const auto found = list_class_folders(folder.path(), error);
  REQUIRE(found);
  CHECK(found->classes == std::vector<std::string>{"a", "b"});
  CHECK(found->empty == std::vector<std::string>{"empty"});
  REQUIRE(found->files.size() == 3);
  CHECK_THAT(found->files[1].path, Catch::EndsWith("b/1.jpg"));
  CHECK(found->files[1].label == 1);
  const auto source = folder_source(found->files, 2);
  CHECK(source->size() == 3);
  const auto image = source->read(0, error);
  REQUIRE(image);
  CHECK(image->bytes == png);
  CHECK(image->label == 0);
  auto other = found->files;
  other[0].bytes += 1;
  CHECK(folder_source(other, 2)->checksum() != source->checksum());
  CHECK_FALSE(list_class_folders(folder.path() + "/b", error));
  CHECK_THAT(error, Contains("/b: no images"));
  CHECK_FALSE(list_class_folders(folder.path() + "/none", error));
  CHECK_THAT(error, Contains("/none: No such file"));
}

TEST_CASE("what a listing passes over is counted by its kind", "[image]") {
  const TemporaryFolder folder;
  for (const char* name : {"a", "b", "a/inner", "a/folder.png"})
    std::filesystem::create_directory(folder / name);
  std::size_t number = 0;
  for (const char* name : {"a/1.webp", "a/2.WEBP", "b/3.webp", "a/1.gif", "b/2.gif", "b/x.bmp",
                           "b/x.tif", "b/x.ppm", "b/noending", "b/x.\n", "b/.hidden", "read.me"})
    folder.write(name, "x" + std::to_string(++number));
  std::filesystem::create_symlink("nowhere", folder / "a/dead.jpg");
  std::filesystem::create_symlink("nowhere", folder / "dead");
  std::string error;
  CHECK_FALSE(list_class_folders(folder.path(), error));
  const std::string passed_over =
      "3 .webp, 2 .gif, 2 dead links, 2 files of no kind, 2 folders below a class, 1 .bmp, 1 .tif, "
      "1 .ppm, 1 file beside the class folders";
  const auto sorted = [](const std::string& text) {
    std::vector<std::string> words;
    std::istringstream stream(text.substr(text.find("passed over: ") + 13));
    for (std::string word; std::getline(stream, word, ',');) words.push_back(" " + word);
    for (std::string& word : words) word.erase(0, word.find_first_not_of(' '));
    std::sort(words.begin(), words.end());
    return words;
  };
  INFO(error);
  CHECK_THAT(error, Contains("; passed over: 3 .webp, 2 "));
  CHECK(sorted(error) == sorted("passed over: " + passed_over));
  // With images they are no error, and the images are none of them.
  folder.write("a/good.jpg", "x");
  const auto found = list_class_folders(folder.path(), error);
  REQUIRE(found);
  CHECK(found->files.size() == 1);
  CHECK(sorted("passed over: " + found->passed_over.text()) ==
        sorted("passed over: " + passed_over));
  PassedOver many;
  for (int i = 0; i < 30; ++i) many.add("." + std::to_string(i), "");
  CHECK_THAT(many.text(), Catch::StartsWith("20 others, 1 .0, ") || Contains(", 20 others"));
}

TEST_CASE("shards that are packed as a whole are named, and how to unpack them", "[image]") {
  const TemporaryFolder folder;
  std::string error;
  const std::string record = encode_record("x");
  folder.write("train-00000-of-00001", gzip(record));
  CHECK_FALSE(shard_source(folder.path(), "train", 10, error));
  CHECK(error == folder / "train-00000-of-00001" +
                     ": packed with GZIP as a whole, so that single records cannot be found; "
                     "gzip -dc unpacks it");
  folder.write("train-00000-of-00001", "\x78\x9c" + std::string(40, '\x55'));
  CHECK_FALSE(shard_source(folder.path(), "train", 10, error));
  CHECK_THAT(error, Contains("packed with ZLIB") && Contains("compression_type"));
  // A record of 0x8b1f bytes begins as gzip does.
  folder.write("train-00000-of-00001", encode_record(std::string(0x8b1f, 'x')));
  CHECK(shard_source(folder.path(), "train", 10, error) != nullptr);
}

TEST_CASE("shards are read as one list, and what is wrong in them names its record", "[image]") {
  const TemporaryFolder folder;
  std::string error;
  REQUIRE(write_synthetic_imagenet(folder.path(), Split::train, 10, 1, error));
  const auto source = shard_source(folder.path(), "train", 10, error);
  REQUIRE(source);
  CHECK(source->size() == 10);
  std::vector<std::int64_t> labels;
  for (std::size_t i = 0; i < 10; ++i) {
    const auto image = source->read(i, error);
    REQUIRE(image);
    labels.push_back(image->label);
    CHECK(image_size(image->bytes, error).value().rows >= 96);
  }
  CHECK(*std::max_element(labels.begin(), labels.end()) < 10);
  CHECK(*std::min_element(labels.begin(), labels.end()) >= 0);
  CHECK(source->read(9, error)->place ==
        folder.path() + "/train-00003-of-00004: record " + std::to_string(2));
  // Fewer classes than there are.
  const auto few = shard_source(folder.path(), "train", 1, error);
  bool refused = false;
  for (std::size_t i = 0; i < 10; ++i) refused = refused || !few->read(i, error);
  CHECK(refused);
  CHECK_THAT(error, Contains("\"image/class/label\" is no class from 1 to 1"));
  // A record without an image.
  REQUIRE(write_whole_file(folder.path() + "/bad-00000-of-00001", encode_record(encode_example({})),
                           error));
  CHECK_FALSE(shard_source(folder.path(), "bad", 10, error)->read(0, error));
  CHECK_THAT(error, Contains("bad-00000-of-00001: record 0: no \"image/encoded\""));
  // A shard that has nothing is told; it may have been cut off before its first record.
  CHECK(source->note().empty());
  const auto with_empty = [&](std::size_t shards) {
    for (std::size_t i = 0; i < shards; ++i) {
      const std::string record = i == 1 ? encode_record("x") : "";
      CHECK(write_whole_file(folder.path() + "/" + shard_name("e", i, shards), record, error));
    }
    const auto found = shard_source(folder.path(), "e", 10, error);
    for (std::size_t i = 0; i < shards; ++i)
      std::filesystem::remove(folder.path() + "/" + shard_name("e", i, shards));
    return found->note();
  };
  CHECK(with_empty(2) == folder.path() + "/e-00000-of-00002: no record in it");
  CHECK(with_empty(4) ==
        folder.path() + "/e-00000-of-00004: no record in it, nor in 2 more shards");
  REQUIRE(write_whole_file(folder.path() + "/train-00000-of-00002", "", error));
  CHECK_FALSE(shard_source(folder.path(), "train", 10, error));
  CHECK_THAT(error, Contains("shards train of two sets, 2 and 4"));
  std::filesystem::remove(folder.path() + "/train-00000-of-00002");
  std::filesystem::remove(folder.path() + "/train-00002-of-00004");
  CHECK_FALSE(shard_source(folder.path(), "train", 10, error));
  CHECK_THAT(error, Contains("train-00002-of-00004"));
  CHECK_FALSE(shard_source(folder.path(), "test", 10, error));
  CHECK_THAT(error, Contains("no shards test-00000-of-00008"));
}

// The name and the bytes of every file below a folder.
std::map<std::string, std::string> all_files(const std::string& folder) {
  std::map<std::string, std::string> files;
  std::string error;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.is_regular_file())
      files[std::filesystem::relative(entry.path(), folder)] =
          read_whole_file(entry.path(), kMaxImageFile, error).value();
  return files;
}

TEST_CASE("a set may have more shards than a process may have open files", "[image]") {
  const TemporaryFolder folder;
  std::string error;
  REQUIRE(write_synthetic_imagenet(folder.path(), Split::train, 4, 1, error));
  constexpr std::size_t kShards = 80;
  for (std::size_t i = 0; i < kShards; ++i)
    std::filesystem::copy_file(folder.path() + "/" + shard_name("train", 0, 4),
                               folder.path() + "/" + shard_name("many", i, kShards));
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
  const rlimit few{kShards / 2, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_NOFILE, &few) == 0);
  const auto source = shard_source(folder.path(), "many", 10, error);
  std::size_t read = 0;
  for (std::size_t i = 0; source && i < source->size(); ++i) read += source->read(i, error) ? 1 : 0;
  REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
  INFO(error);
  CHECK(read == kShards);
}

TEST_CASE("the same seed makes the same files, another one others", "[image]") {
  const auto write = GENERATE(write_synthetic_imagenet, write_synthetic_artists);
  std::string error;
  std::vector<std::map<std::string, std::string>> made;
  for (const std::uint64_t seed : {1U, 1U, 2U}) {
    const TemporaryFolder folder;
    REQUIRE(write(folder.path(), Split::train, 25, seed, error));
    made.push_back(all_files(folder.path()));
  }
  CHECK(made[0].size() >= 4);
  CHECK(made[0] == made[1]);
  CHECK(made[0] != made[2]);
}

TEST_CASE("made-up pictures come in all classes, and the same ones again", "[image]") {
  const TemporaryFolder folder;
  std::string error;
  REQUIRE(write_synthetic_artists(folder.path(), Split::train, 100, 1, error));
  const auto found = list_class_folders(folder.path(), error);
  REQUIRE(found);
  CHECK(found->classes.size() == 5);
  CHECK(found->files.size() == 100);
  const auto of_first = std::count_if(found->files.begin(), found->files.end(),
                                      [](const auto& file) { return file.label == 0; });
  CHECK(of_first > 25);
  const LabelledImages clothes = synthetic_clothes(Split::test, 200, 1);
  CHECK(clothes.images.count == 200);
  CHECK(clothes.images.pixels == synthetic_clothes(Split::test, 200, 1).images.pixels);
  CHECK(clothes.images.pixels != synthetic_clothes(Split::train, 200, 1).images.pixels);
  std::vector<std::uint8_t> sorted = clothes.labels;
  std::sort(sorted.begin(), sorted.end());
  CHECK(std::unique(sorted.begin(), sorted.end()) - sorted.begin() == 10);
}
