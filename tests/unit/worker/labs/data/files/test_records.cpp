#include "tests/catch.h"
#include "tests/unit/worker/labs/data/temporary_folder.h"
#include "worker/labs/data/files/records.h"

namespace hvdrun {
namespace {

using Catch::Contains;
using test::TemporaryFolder;

std::string three_records() {
  return encode_record("first") + encode_record("") + encode_record(std::string(5000, 'x'));
}

std::string open_error(const TemporaryFolder& folder, const std::string& bytes) {
  folder.write("f", bytes);
  std::string error;
  CHECK_FALSE(RecordFile::open(folder / "f", error));
  CHECK(error.find('\n') == std::string::npos);
  return error.substr(error.find("f:"));
}

TEST_CASE("the checksum is CRC-32C, masked", "[records]") {
  CHECK(masked_crc32c("123456789") == 0xc78ab0e5);
  CHECK(masked_crc32c("") == 0xa282ead8);
  // Bit by bit; the reader's takes eight bytes at a time where the processor can.
  std::string bytes;
  for (unsigned length = 0; length < 40; ++length) {
    std::uint32_t crc = 0xffffffff;
    for (const char byte : bytes)
      for (unsigned bit = 0; bit < 8; ++bit) {
        const bool odd = ((crc ^ static_cast<unsigned char>(byte) >> bit) & 1) != 0;
        crc = crc >> 1 ^ (odd ? 0x82f63b78 : 0);
      }
    crc = ~crc;
    CHECK(masked_crc32c(bytes) == (crc >> 15 | crc << 17) + 0xa282ead8);
    bytes.push_back(static_cast<char>(length * 37 + 200));
  }
}

TEST_CASE("a record is framed as TensorFlow does it", "[records]") {
  const std::string framed = encode_record("abc");
  CHECK(framed.substr(0, 8) == std::string("\3\0\0\0\0\0\0\0", 8));
  CHECK(framed.substr(8, 4) == "\xb0\x99\x49\x0e");
  CHECK(framed.substr(12, 3) == "abc");
  CHECK(framed.substr(15) == "\x6e\x57\xf1\x21");
}

TEST_CASE("records are read in any order", "[records]") {
  const TemporaryFolder folder;
  folder.write("f", three_records());
  std::string error;
  auto file = RecordFile::open(folder / "f", error);
  INFO(error);
  REQUIRE(file);
  REQUIRE(file->size() == 3);
  CHECK(file->read(2, error) == std::string(5000, 'x'));
  CHECK(file->read(0, error) == "first");
  CHECK(file->read(1, error) == "");
  const RecordFile moved = std::move(*file);
  CHECK(moved.read(0, error) == "first");
  CHECK(error.empty());
}

TEST_CASE("an empty file has no records", "[records]") {
  const TemporaryFolder folder;
  folder.write("f", "");
  std::string error;
  const auto file = RecordFile::open(folder / "f", error);
  REQUIRE(file);
  CHECK(file->size() == 0);
}

TEST_CASE("what is no file of records is named with its place", "[records]") {
  const TemporaryFolder folder;
  const std::string good = three_records();
  CHECK(open_error(folder, "short") == "f: record at byte 0: the file ends after 5 bytes of it");
  CHECK(open_error(folder, std::string(40, 'x')) ==
        "f: record at byte 0: the checksum of its length is wrong; not a file of records, or "
        "damaged here");
  CHECK(open_error(folder, good.substr(0, 30)) ==
        "f: record at byte 21: the file ends after 9 bytes of it");
  CHECK(open_error(folder, good.substr(0, good.size() - 1)) ==
        "f: record at byte 37: the file ends after 5015 of its 5016 bytes");
  std::string huge("\0\0\0\0\1\0\0\0", 8);
  const std::uint32_t crc = masked_crc32c(huge);
  for (unsigned i = 0; i < 4; ++i) huge.push_back(static_cast<char>(crc >> 8 * i & 0xff));
  CHECK(open_error(folder, huge + "data") ==
        "f: record at byte 0: 4294967296 bytes announced, at most 67108864 expected");

  std::string error;
  CHECK_FALSE(RecordFile::open(folder / "none", error));
  CHECK_THAT(error, Contains("none: No such file"));
  CHECK_FALSE(RecordFile::open(folder.path(), error));
  CHECK_THAT(error, Contains("not a regular file"));
}

TEST_CASE("a damaged record is an error of its own, the others are read", "[records]") {
  const TemporaryFolder folder;
  std::string bytes = three_records();
  bytes[kRecordHeader + 2] ^= 1;
  folder.write("f", bytes);
  std::string error;
  const auto file = RecordFile::open(folder / "f", error);
  REQUIRE(file);
  CHECK_FALSE(file->read(0, error));
  CHECK_THAT(error, Contains("f: record at byte 0: the checksum of its 5 bytes is wrong"));
  CHECK(file->read(2, error));

  folder.write("f", bytes.substr(0, 60));  // while it is open
  CHECK_FALSE(file->read(2, error));
  CHECK_THAT(error, Contains("f: record at byte 37: the file has become shorter"));
}

}  // namespace
}  // namespace hvdrun
