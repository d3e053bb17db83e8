#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <zlib.h>

#include "tests/catch.h"
#include "tests/unit/worker/labs/data/temporary_folder.h"
#include "worker/labs/data/files/mat_file.h"
#include "worker/labs/data/images/svhn_files.h"
#include "worker/labs/data/synthetic/synthetic_digits.h"
#include "worker/labs/data/synthetic/synthetic_numbers.h"

namespace hvdrun {
namespace {

using test::TemporaryFolder;

std::string doubles(const std::vector<double>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double)};
}

std::vector<MatArray> some_arrays() {
  return {{"X", {2, 3, 1}, MatType::uint8, std::string("\0\1\2\xfe\xff\7", 6)},
          {"weights", {1, 2}, MatType::real, doubles({0.5, -3e100})},
          {"none", {0, 4}, MatType::int16, ""},
          {"low", {2, 1}, MatType::int16, std::string("\xff\xff\0\x80", 4)}};
}

std::string error_of(const std::string& bytes) {
  std::string error;
  CHECK_FALSE(parse_mat("f.mat", bytes, error).has_value());
  return error;
}

// x = uint8([1 2; 3 4]) with its name and its numbers in small elements, as MATLAB writes them.
std::string small_elements() {
  std::string bytes = "MATLAB 5.0 MAT-file";
  bytes.resize(124, ' ');
  bytes += std::string("\0\1IM", 4);
  const std::uint32_t words[] = {14, 48, 6, 8, 9, 0, 5, 8, 2, 2};
  bytes.append(reinterpret_cast<const char*>(words), sizeof(words));
  bytes += std::string("\1\0\1\0x\0\0\0", 8);
  bytes += std::string("\2\0\4\0\1\3\2\4", 8);
  return bytes;
}

TEST_CASE("arrays come back as they were written", "[mat]") {
  const bool compressed = GENERATE(false, true);
  std::string error;
  const auto arrays = parse_mat("f", encode_mat(some_arrays(), compressed), error);
  REQUIRE(arrays);
  REQUIRE(arrays->size() == 4);
  for (std::size_t i = 0; i < 4; ++i) {
    const MatArray expected = some_arrays()[i];
    CHECK((*arrays)[i].name == expected.name);
    CHECK((*arrays)[i].dimensions == expected.dimensions);
    CHECK((*arrays)[i].type == expected.type);
    CHECK((*arrays)[i].bytes == expected.bytes);
  }
  CHECK((*arrays)[0].at(4) == 255);
  CHECK((*arrays)[1].at(1) == -3e100);
  CHECK((*arrays)[2].size() == 0);
  CHECK((*arrays)[3].at(0) == -1);
  CHECK((*arrays)[3].at(1) == -32768);
}

TEST_CASE("small elements are read where they are", "[mat]") {
  std::string error;
  const auto arrays = parse_mat("f", small_elements(), error);
  INFO(error);
  REQUIRE(arrays);
  REQUIRE(arrays->size() == 1);
  CHECK(arrays->front().name == "x");
  CHECK(arrays->front().dimensions == std::vector<std::uint32_t>{2, 2});
  CHECK(arrays->front().bytes == std::string("\1\3\2\4"));
}

TEST_CASE("what is no MAT-file of version 5 is named", "[mat]") {
  CHECK(error_of("") == "f.mat: offset 0: a MAT-file has a header of 128 bytes, this file has 0");
  std::string file = encode_mat(some_arrays(), false);
  std::string other = file;
  other.replace(124, 4, std::string("\0\2IM", 4));
  CHECK(error_of(other) ==
        "f.mat: offset 124: a MAT-file of version 7.3 (HDF5); save it again with -v7");
  other.replace(124, 4, std::string("\1\0MI", 4));
  CHECK(error_of(other) ==
        "f.mat: offset 124: big-endian MAT-files cannot be read; save it again on this machine");
  other.replace(124, 4, "abcd");
  CHECK(error_of(other) == "f.mat: offset 124: not a MAT-file of version 5 or 7");
}

TEST_CASE("numbers that cannot be are refused before anything is made for them", "[mat]") {
  const std::string file = encode_mat({some_arrays()[0]}, false);
  const auto with = [&](std::size_t at, std::uint32_t value) {
    std::string changed = file;
    std::memcpy(changed.data() + at, &value, sizeof(value));
    return changed;
  };
  const std::string left = std::to_string(file.size() - 136);
  CHECK(error_of(with(132, 0xffffffff)) ==
        "f.mat: offset 128: an element of 4294967295 bytes where " + left + " are left");
  CHECK(error_of(with(160, 0x7fffffff)) == "f.mat: offset 128: an array of too many numbers");
  CHECK(error_of(with(160, 0x80000000)) == "f.mat: offset 128: a dimension of -2147483648");
  CHECK(error_of(with(156, 4)) == "f.mat: offset 128: an array of 1 dimensions");
  CHECK(error_of(file.substr(0, file.size() - 9)).find("where") != std::string::npos);
  CHECK(error_of(file + "abc") ==
        "f.mat: offset " + std::to_string(file.size()) + ": an element is cut off");
  // Packed: a bomb's end, and garbage.
  const std::string packed = encode_mat({some_arrays()[0]}, true);
  std::string cut = packed.substr(0, packed.size() - 5);
  const auto size = static_cast<std::uint32_t>(cut.size() - 136);
  std::memcpy(cut.data() + 132, &size, sizeof(size));
  CHECK(error_of(cut) == "f.mat: offset 128: packed numbers end too early");
  std::string garbled = packed;
  garbled[137] = 'x';
  CHECK(error_of(garbled).find("f.mat: offset 128: corrupt packed numbers") == 0);
}

TEST_CASE("a changed byte anywhere gives arrays or one line", "[mat]") {
  std::mt19937 random(7);
  for (const bool compressed : {false, true}) {
    const std::string file = encode_mat(some_arrays(), compressed);
    for (int round = 0; round < 3000; ++round) {
      std::string changed = file;
      changed[random() % changed.size()] = static_cast<char>(random());
      changed.resize(changed.size() - random() % 2 * (random() % changed.size()));
      std::string error;
      const auto arrays = parse_mat("f", changed, error);
      CHECK(arrays.has_value() == error.empty());
      CHECK(error.find('\n') == std::string::npos);
    }
  }
}

// These numbers change only when the set itself is changed on purpose.
TEST_CASE("the made-up house numbers are the same on every machine", "[svhn]") {
  const ImageSet set = synthetic_numbers(Split::train, 100, 1);
  const auto checksum = [](const std::vector<std::uint8_t>& bytes) {
    return crc32(0, bytes.data(), static_cast<unsigned>(bytes.size()));
  };
  CHECK(checksum(set.pixels) == 0xdb647189);
  CHECK(set.labels == synthetic_digits(Split::train, 100, 1).labels);
  const ImageSet longer = synthetic_numbers(Split::train, 110, 1);
  CHECK(std::equal(set.pixels.begin(), set.pixels.end(), longer.pixels.begin()));
  CHECK(synthetic_numbers(Split::test, 100, 1).pixels != set.pixels);
}

TEST_CASE("house numbers come back from their file", "[svhn]") {
  const TemporaryFolder folder;
  ImageSet set = synthetic_numbers(Split::train, 30, 5);
  std::string error;
  REQUIRE(write_svhn(folder.path(), Split::train, set, error));
  const auto read = read_svhn(folder.path(), Split::train, error);
  INFO(error);
  REQUIRE(read);
  CHECK(read->channels == 3);
  CHECK(read->rows == 32);
  CHECK(read->pixels == set.pixels);
  CHECK(read->labels == set.labels);
  CHECK_FALSE(read_svhn(folder.path(), Split::test, error));
  CHECK(error ==
        folder / "test_32x32.mat" + ": not found; make a set with scripts/make-dataset svhn");
}

TEST_CASE("a pixel of the file's X is the one that MATLAB shows there", "[svhn]") {
  const TemporaryFolder folder;
  MatArray x{"X", {32, 32, 3}, MatType::uint8, std::string(3072, '\0')};  // of one image
  x.bytes[4 + 32 * (7 + 32 * 2)] = 'x';  // X(5, 8, 3): row 5, column 8, blue
  const MatArray y{"y", {1, 1}, MatType::real, doubles({10})};
  folder.write("train_32x32.mat", encode_mat({x, y}, true));
  std::string error;
  const auto set = read_svhn(folder.path(), Split::train, error);
  INFO(error);
  REQUIRE(set);
  CHECK(set->labels == std::vector<std::uint8_t>{0});
  CHECK(set->pixels[2 * 1024 + 4 * 32 + 7] == 'x');
}

TEST_CASE("files that are no house numbers are named", "[svhn]") {
  const TemporaryFolder folder;
  const std::string path = folder.path() + "/train_32x32.mat";
  const MatArray x{"X", {32, 32, 3, 2}, MatType::uint8, std::string(6144, '\0')};
  const auto refused = [&](const std::vector<MatArray>& arrays) {
    folder.write("train_32x32.mat", encode_mat(arrays, false));
    std::string error;
    CHECK_FALSE(read_svhn(folder.path(), Split::train, error));
    return error;
  };
  CHECK(refused({x}) == path + ": no array y of numbers");
  CHECK(refused({{"X", {2, 3}, MatType::uint8, std::string(6, '\0')},
                 {"y", {0, 0}, MatType::uint8, ""}}) ==
        path + ": X is 2x3, 32x32x3xN bytes expected");
  CHECK(refused({x, {"y", {1, 1}, MatType::uint8, "\1"}}) == path + ": 1 labels, but 2 images");
  CHECK(refused({x, {"y", {2, 1}, MatType::real, doubles({1, NAN})}}) ==
        path + ": the label of image 1 is no number from 1 to 10");
  CHECK(refused({x, {"y", {2, 1}, MatType::uint8, std::string("\1\0", 2)}}) ==
        path + ": the label of image 1 is no number from 1 to 10");
}

}  // namespace
}  // namespace hvdrun
