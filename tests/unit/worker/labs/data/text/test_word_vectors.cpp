#include <map>
#include <string>
#include <utility>

#include "tests/catch.h"
#include "worker/labs/data/text/sentences.h"
#include "worker/labs/data/text/word_vectors.h"

using namespace hvdrun;

namespace {

std::string vectors_error(std::string_view text) {
  std::string error;
  CHECK_FALSE(parse_word_vectors("f.vec", text, 2, {}, error));
  CHECK(error.find('\n') == std::string::npos);
  return error;
}

}  // namespace

TEST_CASE("word vectors are read by word, with and without a header", "[vectors]") {
  std::string error;
  for (const char* header : {"", "3 2\n"}) {
    const auto vectors = parse_word_vectors(
        "f", std::string(header) + "good 1 -2.5\nbad\t0.5 1e-3\r\n\n, 7 8\nGood 9 9\nlast 3 4", 2,
        {}, error);
    INFO(error);
    REQUIRE(vectors);
    CHECK(vectors->dimension == 2);
    CHECK(vectors->words == std::vector<std::uint32_t>{word_numbers("good")[0],
                                                       word_numbers("bad")[0],
                                                       word_numbers("last")[0]});
    CHECK(vectors->values == std::vector<float>{1, -2.5F, 0.5F, 1e-3F, 3, 4});
    CHECK(vectors->skipped == 1);
  }
}

TEST_CASE("words with a blank are left out and counted", "[vectors]") {
  std::string error;
  const auto vectors =
      parse_word_vectors("f", ". . 1 2\ngood 1 2\nat 5 3 4\nfine 5 6\n", 2, {}, error);
  INFO(error);
  REQUIRE(vectors);
  CHECK(vectors->skipped == 2);
  CHECK(vectors->values == std::vector<float>{1, 2, 5, 6});
}

TEST_CASE("words of a vocabulary keep their vectors apart", "[vectors]") {
  std::map<std::uint32_t, std::string> seen;
  std::pair<std::string, std::string> alike;
  for (int i = 0; alike.first.empty(); ++i) {
    const std::string word = "w" + std::to_string(i);
    const auto [other, is_new] = seen.emplace(word_numbers(word)[0], word);
    if (!is_new) alike = {other->second, word};
  }
  const std::string text = alike.first + " 1 2\n" + alike.second + " 3 4\n";
  std::string error;
  const auto hashed = parse_word_vectors("f", text, 2, {}, error);
  REQUIRE(hashed);
  CHECK(hashed->values == std::vector<float>{1, 2});
  const Vocabulary vocabulary({{alike.first, 1}, {alike.second, 1}}, 2);
  const auto apart = parse_word_vectors("f", text, 2, vocabulary, error);
  REQUIRE(apart);
  CHECK(apart->values == std::vector<float>{1, 2, 3, 4});
  CHECK(apart->words == std::vector<std::uint32_t>{vocabulary.number(alike.first),
                                                   vocabulary.number(alike.second)});
}

TEST_CASE("what is no file of word vectors is one line with its place", "[vectors]") {
  CHECK(vectors_error("") == "f.vec: no words");
  CHECK(vectors_error("5 2\n") == "f.vec: no words");
  CHECK(vectors_error("good 1 2\nbad 1\n") == "f.vec:2: byte 9: 1 numbers, not 2");
  CHECK(vectors_error("good 1 2 3\n") == "f.vec:1: byte 0: more than 2 numbers");
  CHECK(vectors_error("good 1 2\nat 1 x 3\n") == "f.vec:2: byte 14: 'x' is no finite number");
  CHECK(vectors_error("good 1 x\n") == "f.vec:1: byte 7: 'x' is no finite number");
  CHECK(vectors_error("good 1 inf\n") == "f.vec:1: byte 7: 'inf' is no finite number");
  CHECK(vectors_error("good 1 1e999\n") == "f.vec:1: byte 7: '1e999' is no finite number");
  CHECK(vectors_error(std::string("\0\0 1 2", 6)) == "f.vec: no words");
}
