#include <string>
#include <string_view>

#include "tests/catch.h"
#include "tests/unit/worker/labs/data/temporary_folder.h"
#include "worker/labs/data/files/decoded_text.h"
#include "worker/labs/data/files/gzip.h"
#include "worker/labs/data/text/sentences.h"
#include "worker/labs/data/text/word_vectors.h"

namespace hvdrun {
namespace {

using namespace std::string_literals;

constexpr std::size_t kSome = 1000;

std::string text_error(const std::string& bytes, std::size_t limit = kSome) {
  std::string error;
  CHECK_FALSE(decode_text("f.csv", bytes, limit, error));
  CHECK(error.find('\n') == std::string::npos);
  return error;
}

// Two bytes for each character.
std::string wide(std::string_view text, bool high_first) {
  std::string bytes;
  for (const char c : text) bytes += high_first ? std::string{'\0', c} : std::string{c, '\0'};
  return bytes;
}

TEST_CASE("text may be packed by gzip, up to a limit", "[text]") {
  std::string error;
  for (const std::string& text : {""s, "a,b\n"s, std::string(kSome, 'x')}) {
    CHECK(decode_text("f", text, kSome, error) == text);
    CHECK(decode_text("f", gzip(text), kSome, error) == text);
  }
  CHECK(text_error(gzip(std::string(kSome + 1, 'x'))) ==
        "f.csv: unpacked more than the 1000 bytes expected at most");
  const std::string packed = gzip("some text");
  CHECK(text_error(packed.substr(0, 12)) == "f.csv: the gzip data ends too early, at byte 12");
  CHECK(text_error(gzip("\xff\xfe"
                        "a")) ==
        "f.csv: text in UTF-16; iconv -f UTF-16 -t UTF-8 f.csv makes UTF-8 of it");
}

TEST_CASE("what is no text is named, with what makes text of it", "[text]") {
  const std::string csv = "text,label\nwords,1\n";
  const std::string cure = " f.csv makes UTF-8 of it";
  CHECK(text_error("\xff\xfe" + wide(csv, false)) ==
        "f.csv: text in UTF-16; iconv -f UTF-16 -t UTF-8" + cure);
  CHECK(text_error("\xfe\xff" + wide(csv, true)) ==
        "f.csv: text in UTF-16; iconv -f UTF-16 -t UTF-8" + cure);
  CHECK(text_error(wide(csv, false)) == "f.csv: text in UTF-16; iconv -f UTF-16LE -t UTF-8" + cure);
  CHECK(text_error(wide(csv, true)) == "f.csv: text in UTF-16; iconv -f UTF-16BE -t UTF-8" + cure);
  CHECK(text_error("\xff\xfe\0\0t\0\0\0"s) ==
        "f.csv: text in UTF-32; iconv -f UTF-32 -t UTF-8" + cure);
  CHECK(text_error("PK\3\4....") ==
        "f.csv: a zip archive or a workbook; unzip f.csv unpacks the one, save the other as CSV");
  CHECK(text_error("BZh91AY") == "f.csv: packed by bzip2; bunzip2 f.csv unpacks it");
  CHECK(text_error("\xfd"
                   "7zXZ\0"s) == "f.csv: packed by xz; unxz f.csv unpacks it");
  CHECK(text_error("\x28\xb5\x2f\xfd.") == "f.csv: packed by zstd; unzstd f.csv unpacks it");
  CHECK(text_error("PAR1....") == "f.csv: a Parquet file; write it as CSV");
  CHECK(text_error("ELF\0\1\2\3\0"s) ==
        "f.csv: byte 3 is zero, as none of a text is; a text file is expected");
}

TEST_CASE("sentences and vectors of words are read packed, and named when they are no text",
          "[text]") {
  const test::TemporaryFolder folder;
  std::string error;
  folder.write("packed", gzip("text,label\ngood,1\nbad,0\n"));
  const auto sentences = read_sentences(folder / "packed", {}, error);
  INFO(error);
  REQUIRE(sentences);
  CHECK(sentences->size() == 2);
  folder.write("vectors", gzip("good 1 2\nbad 3 4\n"));
  const auto vectors = read_word_vectors(folder / "vectors", 2, {}, error);
  REQUIRE(vectors);
  CHECK(vectors->words.size() == 2);
  folder.write("wide", "\xff\xfe" + wide("text,label\ngood,1\n", false));
  CHECK_FALSE(read_sentences(folder / "wide", {}, error));
  CHECK(error.find("wide: text in UTF-16; iconv") != std::string::npos);
  CHECK_FALSE(read_word_vectors(folder / "wide", 2, {}, error));
  CHECK(error.find("wide: text in UTF-16; iconv") != std::string::npos);
}

}  // namespace
}  // namespace hvdrun
