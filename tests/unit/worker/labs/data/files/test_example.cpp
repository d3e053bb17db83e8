#include "tests/catch.h"
#include "worker/labs/data/files/example.h"

namespace hvdrun {
namespace {

using Catch::Contains;
using namespace std::string_literals;

std::string example_error(const std::string& bytes) {
  std::string error;
  CHECK_FALSE(parse_example(bytes, error));
  CHECK(error.find('\n') == std::string::npos);
  return error;
}

TEST_CASE("features of all three kinds survive being written and read", "[example]") {
  Example example;
  Feature image;
  const std::string jpeg = "\xff\xd8 jpeg\0"s;
  image.bytes = {jpeg, "second"};
  Feature label;
  label.integers = {7, -1, 300, INT64_MIN};
  Feature box;
  box.floats = {0.5F, -2.25F};
  example.add("image/encoded", image);
  example.add("image/class/label", label);
  example.add("image/object/bbox/xmin", box);
  example.add("empty", {});
  const std::string bytes = encode_example(example);
  std::string error;
  const auto read = parse_example(bytes, error);
  INFO(error);
  REQUIRE(read);
  REQUIRE(read->features().size() == 4);
  REQUIRE(read->find("image/encoded"));
  CHECK(read->find("image/encoded")->bytes == image.bytes);
  CHECK(read->find("image/class/label")->integers == label.integers);
  CHECK(read->find("image/object/bbox/xmin")->floats == box.floats);
  CHECK(read->find("empty")->bytes.empty());
  CHECK(read->find("image/height") == nullptr);
}

// As protocol buffers write them without packing, with fields that we do not know.
TEST_CASE("numbers that are not packed and unknown fields are read", "[example]") {
  const std::string integers = "\x08\x05\x08\xac\x02"s;                  // 5, 300
  const std::string feature = "\x1a"s + '\x05' + integers + "\x50\x01";  // and a field 10
  const std::string entry = "\x0a\x01n\x12"s + static_cast<char>(feature.size()) + feature;
  const std::string features = "\x0a"s + static_cast<char>(entry.size()) + entry;
  const std::string bytes = "\x25xyz!"s + "\x0a" + static_cast<char>(features.size()) + features;
  std::string error;
  const auto read = parse_example(bytes, error);
  INFO(error);
  REQUIRE(read);
  REQUIRE(read->find("n"));
  CHECK(read->find("n")->integers == std::vector<std::int64_t>{5, 300});

  const std::string floats = "\x0d\0\0\0\x3f"s;  // 0.5
  const std::string other = "\x12"s + '\x05' + floats;
  const std::string pair = "\x0a\x01n\x12"s + static_cast<char>(other.size()) + other;
  const std::string list = "\x0a"s + static_cast<char>(pair.size()) + pair;
  const std::string message = "\x0a"s + static_cast<char>(list.size()) + list;
  const auto second = parse_example(message, error);
  REQUIRE(second);
  CHECK(second->find("n")->floats == std::vector<float>{0.5F});
}

TEST_CASE("a name that comes twice counts as the last one", "[example]") {
  Example example;
  for (const std::int64_t value : {1, 2}) {
    Feature feature;
    feature.integers = {value};
    example.add("n", feature);
  }
  const std::string bytes = encode_example(example);
  std::string error;
  const auto read = parse_example(bytes, error);
  REQUIRE(read);
  CHECK(read->find("n")->integers == std::vector<std::int64_t>{2});
}

TEST_CASE("what is no example is one line with the place", "[example]") {
  CHECK(example_error("\x0a\x05 no") ==
        "not a tf.train.Example: byte 2: 5 bytes announced, 3 left");
  CHECK(example_error("\x08\x05") == "not a tf.train.Example: byte 1: field 1 of another type");
  CHECK(example_error("\x0a") == "not a tf.train.Example: byte 1: a number is cut off");
  CHECK(example_error("\x0a" + std::string(9, '\xff') + "\x7f") ==
        "not a tf.train.Example: byte 11: a number of more than 64 bits");
  CHECK(example_error("\x13") == "not a tf.train.Example: byte 1: a field of unknown encoding");
  std::string many;
  for (std::size_t i = 0; i <= kMaxFeatures; ++i) many += "\x0a\0"s;
  std::string length;  // of `many`, as a varint
  for (std::size_t left = many.size(); left > 0; left >>= 7)
    length += static_cast<char>(left >= 0x80 ? left | 0x80 : left);
  CHECK_THAT(example_error("\x0a" + length + many), Contains("more than 10000 features"));
}

TEST_CASE("every beginning of an example is read or refused", "[example]") {
  Example example;
  Feature label;
  label.integers = {1, 1000};
  label.bytes = {};
  Feature image;
  image.bytes = {"bytes"};
  example.add("label", label);
  example.add("image", image);
  const std::string bytes = encode_example(example);
  for (std::size_t length = 1; length < bytes.size(); ++length)
    example_error(bytes.substr(0, length));
}

}  // namespace
}  // namespace hvdrun
