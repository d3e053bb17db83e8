#include "tests/catch.h"
#include "worker/labs/data/files/gzip.h"
#include "worker/labs/data/files/idx.h"

namespace hvdrun {
namespace {

IdxImages three_images() {
  IdxImages images;
  images.count = 3;
  images.rows = 2;
  images.columns = 4;
  for (std::uint8_t i = 0; i < 24; ++i) images.pixels.push_back(static_cast<std::uint8_t>(i * 10));
  return images;
}

std::string images_error(const std::string& bytes) {
  std::string error;
  REQUIRE_FALSE(parse_idx_images("file", bytes, error));
  CHECK(error.find('\n') == std::string::npos);
  return error;
}

std::string labels_error(const std::string& bytes) {
  std::string error;
  REQUIRE_FALSE(parse_idx_labels("file", bytes, 9, error));
  CHECK(error.find('\n') == std::string::npos);
  return error;
}

// The bytes of `text` with the 32-bit number at `offset` replaced.
std::string with_u32(std::string bytes, std::size_t offset, std::uint32_t value) {
  for (std::size_t i = 0; i < 4; ++i) {
    bytes[offset + i] = static_cast<char>(value >> (24 - 8 * i) & 0xff);
  }
  return bytes;
}

TEST_CASE("images and labels survive being written and read, plain and gzip", "[idx]") {
  const bool packed = GENERATE(false, true);
  const auto pack = [&](const std::string& bytes) { return packed ? gzip(bytes) : bytes; };
  std::string error;
  const auto images = parse_idx_images("file", pack(encode_idx_images(three_images())), error);
  CHECK(error.empty());
  REQUIRE(images);
  CHECK(images->count == 3);
  CHECK(images->rows == 2);
  CHECK(images->columns == 4);
  CHECK(images->pixels == three_images().pixels);

  const std::vector<std::uint8_t> labels{0, 9, 4};
  CHECK(parse_idx_labels("file", pack(encode_idx_labels(labels)), 9, error) == labels);
}

TEST_CASE("the header is the documented one", "[idx]") {
  const std::string bytes = encode_idx_images(three_images());
  CHECK(bytes.substr(0, 16) == std::string("\0\0\x08\x03\0\0\0\3\0\0\0\2\0\0\0\4", 16));
  CHECK(encode_idx_labels({7}) == std::string("\0\0\x08\x01\0\0\0\1\7", 9));
}

TEST_CASE("every truncated prefix of a file is an error, plain and gzip", "[idx]") {
  const bool packed = GENERATE(false, true);
  std::string images = encode_idx_images(three_images());
  std::string labels = encode_idx_labels({1, 2, 3});
  if (packed) {
    images = gzip(images);
    labels = gzip(labels);
  }
  for (std::size_t size = 0; size < images.size(); ++size) {
    CAPTURE(size, packed);
    CHECK(images_error(images.substr(0, size)).rfind("file: ", 0) == 0);
  }
  for (std::size_t size = 0; size < labels.size(); ++size) {
    CAPTURE(size, packed);
    CHECK(labels_error(labels.substr(0, size)).rfind("file: ", 0) == 0);
  }
}

TEST_CASE("errors say what was expected and what was found", "[idx]") {
  const std::string images = encode_idx_images(three_images());
  CHECK(images_error(images.substr(0, 30)) ==
        "file: byte 30: 40 bytes expected for 3 images of 2x4, 30 found");
  CHECK(images_error(images + "xx") ==
        "file: byte 40: 40 bytes expected for 3 images of 2x4, 42 found");
  CHECK(images_error(gzip(images + "xx")) ==
        "file: byte 40: 40 bytes expected for 3 images of 2x4, more found");
  CHECK(images_error("abc") == "file: byte 3: an IDX header of 16 bytes expected, 3 found");
  CHECK(images_error("GIF89a, say") ==
        "file: byte 0: not an IDX file of images (it begins with 0x47494638, not 0x00000803)");
  CHECK(images_error(encode_idx_labels({1, 2, 3})) ==
        "file: byte 0: not an IDX file of images (it begins with 0x00000801, not 0x00000803)");
  CHECK(labels_error(images) ==
        "file: byte 0: not an IDX file of labels (it begins with 0x00000803, not 0x00000801)");
  CHECK(labels_error(encode_idx_labels({1, 10, 3})) == "file: byte 9: label 10, 0 to 9 expected");
}

TEST_CASE("a header that announces too much or nothing is an error before anything is allocated",
          "[idx]") {
  const std::string images = encode_idx_images(three_images());
  for (const std::uint32_t count : {0U, kMaxIdxItems + 1, 0xffffffffU}) {
    CHECK(images_error(with_u32(images, 4, count)) == "file: byte 4: the header announces " +
                                                          std::to_string(count) +
                                                          " images, 1 to 10000000 expected");
  }
  for (const std::size_t offset : {8U, 12U}) {
    for (const std::uint32_t side : {0U, kMaxIdxSide + 1, 0xffffffffU}) {
      CAPTURE(offset, side);
      CHECK_THAT(images_error(with_u32(images, offset, side)),
                 Catch::Matchers::EndsWith("sides of 1 to 4096 expected"));
    }
  }
  const std::string huge =
      with_u32(with_u32(with_u32(images, 4, kMaxIdxItems), 8, kMaxIdxSide), 12, kMaxIdxSide);
  CHECK_THAT(images_error(huge), Catch::Matchers::Contains("over the limit of 1073741824 bytes"));
  CHECK_THAT(images_error(gzip(huge)),
             Catch::Matchers::Contains("over the limit of 1073741824 bytes"));
}

TEST_CASE("corrupt gzip data is an error", "[gzip]") {
  const std::string good = gzip(encode_idx_images(three_images()));
  SECTION("no flipped bit goes unnoticed, unless it means nothing") {
    for (std::size_t i = 0; i < good.size(); ++i) {
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ 0x10);
      CAPTURE(i);
      std::string error;
      const auto images = parse_idx_images("file", bad, error);
      // The time stamp and the bits after the last block are not data.
      if (images) {
        CHECK(images->pixels == three_images().pixels);
      } else {
        CHECK(error.rfind("file: ", 0) == 0);
      }
    }
  }
  SECTION("where it is") {
    CHECK(images_error(good.substr(0, 30)) == "file: the gzip data ends too early, at byte 30");
    std::string bad = good;
    bad[2] = 1;  // a way of packing that there is not
    CHECK_THAT(images_error(bad), Catch::Matchers::StartsWith("file: corrupt gzip data at byte "));
  }
  SECTION("garbage after the end") {
    CHECK(images_error(good + "rubbish") ==
          "file: 7 bytes of garbage after the gzip data, at byte " + std::to_string(good.size()));
  }
  SECTION("zeros after the end fill a block up, and are nothing") {
    for (const std::size_t zeros : {1U, 511U, 100'000U}) {
      std::string error;
      const auto images = parse_idx_images("file", good + std::string(zeros, '\0'), error);
      CHECK(images.has_value());
      // Not where something comes behind them.
      CHECK_THAT(images_error(good + std::string(zeros, '\0') + "x"),
                 Catch::Matchers::StartsWith("file: " + std::to_string(zeros + 1) +
                                             " bytes of garbage after the gzip data, at byte "));
    }
  }
  SECTION("a second member is data, as in gzip itself") {
    const std::string bytes = encode_idx_images(three_images());
    std::string error;
    CHECK(parse_idx_images("file", gzip(bytes.substr(0, 11)) + gzip(bytes.substr(11)), error));
    CHECK_THAT(images_error(good + good), Catch::Matchers::EndsWith("more found"));
  }
}

TEST_CASE("gunzip stops at its limit", "[gzip]") {
  const std::string zeros(5'000'000, '\0');
  std::string output;
  std::string error;
  CHECK(gunzip(gzip(zeros), 100, output, error) == GunzipResult::limit_reached);
  CHECK(output == zeros.substr(0, 100));
  CHECK(gunzip(gzip(zeros), zeros.size(), output, error) == GunzipResult::complete);
  CHECK(output == zeros);
  CHECK(gunzip(gzip(""), 0, output, error) == GunzipResult::complete);
  CHECK(output.empty());
}

}  // namespace
}  // namespace hvdrun
