#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/catch.h"
#include "worker/labs/data/files/csv.h"
#include "worker/labs/data/synthetic/synthetic_sentences.h"
#include "worker/labs/data/text/sentences.h"

namespace hvdrun {
namespace {

TEST_CASE("words are found whatever stands between them", "[sentences]") {
  CHECK(word_numbers("Don't   PANIC!") == word_numbers("dont\n\"panic\""));
  CHECK(word_numbers("caf\xc3\xa9 2") == word_numbers("(caf\xc3\xa9),2"));
  CHECK(word_numbers("caf\xc3\xa9") != word_numbers("caf"));
  CHECK(word_numbers("'' -- .").empty());
  CHECK(word_numbers("").empty());
  CHECK(word_numbers("one two one").size() == 3);
  std::string many;
  for (int i = 0; i < 2000; ++i) many += "w" + std::to_string(i) + " ";
  CHECK(word_numbers(many).size() == kMaxWords);
}

TEST_CASE("the number of a word is the same in every version", "[sentences]") {
  // FNV-1a and splitmix64, reckoned apart from this code: checkpoints depend on them.
  CHECK(word_numbers("a dull film") == std::vector<std::uint32_t>{48724, 39612, 120228});
  std::set<std::uint32_t> numbers;
  for (int i = 0; i < 10'000; ++i) {
    const std::uint32_t number = word_numbers("word" + std::to_string(i)).at(0);
    REQUIRE(number > 0);
    REQUIRE(number < kWordNumbers);
    numbers.insert(number);
  }
  // About 9,628 of 10,000 balls in 131,071 boxes have a box of their own or are its first.
  CHECK(numbers.size() > 9'550);
}

TEST_CASE("the most frequent words have a number of their own", "[sentences]") {
  const auto numbers = [](std::size_t vocabulary) {
    std::string error;
    const auto read = parse_sentences("f", "text,label\nb A a,1\nc B d a,0\nc,1\n",
                                      {"text", "label", vocabulary}, error);
    REQUIRE(read);
    CHECK(read->vocabulary.size() == std::min<std::size_t>(vocabulary, 4));
    return read->words;
  };
  using Words = std::vector<std::vector<std::uint32_t>>;
  const Words all{{2, 1, 1}, {3, 2, 4, 1}, {3}};  // b and c are equally frequent
  CHECK(numbers(4) == all);
  CHECK(numbers(100) == all);
  const Words two = numbers(2);
  CHECK(two[0] == all[0]);
  CHECK(two[2][0] == two[1][0]);
  for (const std::uint32_t other : {two[1][0], two[1][2]}) {
    CHECK(other > 2);
    CHECK(other < kWordNumbers);
  }
  CHECK(numbers(0)[0] == word_numbers("b a a"));
  // Fewer numbers in all: the rest shares what is left.
  const Vocabulary few({{"a", 3}, {"b", 2}, {"c", 1}}, 3, 4);
  CHECK(few.numbers() == 4);
  CHECK(few.size() == 2);
  CHECK(few.number("b") == 2);
  for (const char* word : {"c", "d", "e", "f"}) CHECK(few.number(word) == 3);
  const Vocabulary hashed(16);
  for (const char* word : {"a", "b", "c", "d", "e", "f"}) {
    CHECK(hashed.number(word) > 0);
    CHECK(hashed.number(word) < 16);
  }
  CHECK(Vocabulary({{"x", 1}}, kMaxVocabulary + 1).number("x") == 1);
}

std::string good_rows(int count) {
  std::string csv;
  for (int i = 0; i < count; ++i)
    csv += i % 2 == 0 ? "1,\"good, \"\"really\"\"\nso\"\n" : "0,bad\n";
  return csv;
}

std::string sentence_error(const std::string& csv, const SentenceOptions& options = {}) {
  std::string error;
  CHECK_FALSE(parse_sentences("f.csv", csv, options, error));
  CHECK(error.find('\n') == std::string::npos);
  return error;
}

TEST_CASE("damaged rows are counted and the first of each kind named", "[sentences]") {
  std::string error;
  const auto read =
      parse_sentences("f.csv", "label,text\n2,what\n0\n,none\n1,...\n" + good_rows(300), {}, error);
  INFO(error);
  REQUIRE(read);
  CHECK(read->size() == 300);
  CHECK(read->labels[0] == 1);
  CHECK(read->labels[1] == 0);
  CHECK(read->words[0] == word_numbers("good really so"));
  CHECK(read->skipped == 4);
  CHECK(read->note.empty());
  CHECK(read->first_skipped ==
        "f.csv:3: byte 18: 1 fields, 2 expected; f.csv:2: byte 11: the label '2' is neither of the "
        "two");
}

TEST_CASE("more than a hundredth of damaged rows is an error, without a word they may be more",
          "[sentences]") {
  const std::string good = "label,text\n" + good_rows(198);
  std::string error;
  CHECK(parse_sentences("f.csv", good + "1,a,b\n1,a,b\n", {}, error));
  CHECK(sentence_error(good + "1,a,b\n1,a,b\n1,c, d\n") ==
        "f.csv:299: byte 2981: 3 fields, 2 expected, and so in 3 of 201 rows; a text with a comma "
        "or a line break in it must be in quotes");
  CHECK(sentence_error(good + ",a\n,a\n,a\n") ==
        "f.csv: column 'label': 3 of 201 rows have no value; there is: '1' 99 times, '0' 99 times, "
        "'' "
        "3 times; leave them out; --label-column names another column");
  std::string empty;
  for (int i = 0; i < 100; ++i) empty += "1,\n";
  const auto read = parse_sentences("f.csv", good + empty, {}, error);
  REQUIRE(read);
  CHECK(read->skipped == 100);
  CHECK(sentence_error("label,text\n0,\n1,word\n") ==
        "f.csv: column 'text': no word in all rows of a label (f.csv:2: byte 11: no word in it); "
        "--text-column names another column");
}

TEST_CASE("labels may be any two values, and a note says which is 1", "[sentences]") {
  std::string error;
  const auto of = [&](const std::string& csv) {
    const auto read = parse_sentences("f.csv", csv, {}, error);
    INFO(error);
    REQUIRE(read);
    CHECK(read->skipped == 0);
    return read->note + (read->note.empty() ? "" : ": ") + std::to_string(read->labels[0]) +
           std::to_string(read->labels[1]);
  };
  CHECK(of("text,label\na,0\nb,1\n") == "01");
  CHECK(of("text,label\na,-1\nb,1\n") == "labels: 1 is 1, -1 is 0: 01");
  CHECK(of("label\ttext\r\nSpam\ta, b\r\nham\tc\r\n") == "labels: spam is 1, ham is 0: 10");
  CHECK(of("\xef\xbb\xbf"
           ",text,label\n0,a,yes\n1,b,no\n") == "labels: yes is 1, no is 0: 10");
  CHECK(sentence_error("text,label\na,5\nb,5\nc,1\nd,3\ne,3\nf,1\n") ==
        "f.csv: column 'label': two values are expected, there is: '5' 2 times, '1' 2 times, '3' 2 "
        "times; leave rows out, or make two values of them (of stars, 0 for 1 and 2, 1 for 4 and "
        "5); --label-column names another column");
  CHECK(sentence_error("text,label\na,1\nb,1\n") ==
        "f.csv: column 'label': two values are expected, there is: '1' 2 times; --label-column "
        "names another column");
  std::string many = "text,label\n";
  for (int i = 0; i < 1001; ++i) many += "a," + std::to_string(i) + "\n";
  CHECK(
      sentence_error(many) ==
      "f.csv: column 'label': more than 1000 values, two are expected; there is: '0' 1 times, '1' "
      "1 times, '2' 1 times, '3' 1 times, '4' 1 times and 995 more; --label-column names another "
      "column");
}

TEST_CASE("a file without sentences is an error that says why", "[sentences]") {
  CHECK(sentence_error("words,label\na,1\n") ==
        "f.csv:1: byte 0: no column 'text'; there is: 'words' 'label' (the first line names them); "
        "choose with --text-column");
  CHECK(
      sentence_error("words;class\na;1\n") ==
      "f.csv:1: byte 0: no column 'text', no column 'label'; there is: 'words' 'class' (the first "
      "line names them); choose with --text-column and --label-column");
  CHECK(sentence_error("text,label\n", {"text", "stars"}) ==
        "f.csv:1: byte 0: no column 'stars'; there is: 'text' 'label' (the first line names them); "
        "choose with --label-column");
  // A file without names has texts in their place.
  std::string texts = "0";
  for (int i = 0; i < 20; ++i) texts += "," + std::string(5000, static_cast<char>('a' + i));
  CHECK(sentence_error(texts + "\n").size() < 900);
  CHECK(sentence_error("text,label\n") == "f.csv: no rows below the names of the columns");
  CHECK(sentence_error("text,label\n\"a,1\n") == "f.csv:2: byte 11: a quote that is never closed");
  CHECK(sentence_error("") == "f.csv:1: byte 0: no row with the names of the columns");
}

TEST_CASE("a vocabulary has the words of the training sentences only", "[sentences]") {
  std::string csv = "text,label\n";
  for (int i = 0; i < 40; ++i)
    csv += "word" + std::to_string(i) + "," + std::to_string(i % 2) + "\n";
  std::string error;
  for (const std::uint64_t seed : {1, 2}) {
    const auto read = parse_sentences("f", csv, {"text", "label", 1000, seed}, error);
    REQUIRE(read);
    const SentenceSplit split = split_sentences(read->labels, seed);
    CHECK(split.train.size() == 32);
    CHECK(read->vocabulary.size() == 32);
    for (const std::uint32_t i : split.train) CHECK(read->words[i][0] <= 32);
    for (const std::uint32_t i : split.validation) CHECK(read->words[i][0] > 32);
    for (const std::uint32_t i : split.test) CHECK(read->words[i][0] > 32);
  }
}

TEST_CASE("a split keeps the labels' shares and every sentence once", "[sentences]") {
  std::vector<std::uint8_t> labels(1000, 0);
  for (std::size_t i = 0; i < labels.size(); i += 5) labels[i] = 1;
  const SentenceSplit split = split_sentences(labels, 1);
  std::vector<std::uint32_t> all;
  for (const auto* part : {&split.train, &split.validation, &split.test}) {
    CHECK(std::is_sorted(part->begin(), part->end()));
    const auto ones =
        std::count_if(part->begin(), part->end(), [&](std::uint32_t i) { return labels[i] == 1; });
    CHECK(static_cast<std::size_t>(ones) * 5 == part->size());
    all.insert(all.end(), part->begin(), part->end());
  }
  CHECK(split.validation.size() == 100);
  CHECK(split.test.size() == 100);
  std::sort(all.begin(), all.end());
  std::vector<std::uint32_t> expected(labels.size());
  std::iota(expected.begin(), expected.end(), 0U);
  CHECK(all == expected);
  CHECK(split_sentences(labels, 1).test == split.test);
  CHECK(split_sentences(labels, 2).test != split.test);
  CHECK(split_sentences({0, 1}, 1).train.size() == 2);
}

TEST_CASE("made-up sentences read back, and no word alone tells the label", "[sentences]") {
  const std::string csv = synthetic_sentences(4000, 1);
  CHECK(csv == synthetic_sentences(4000, 1));
  CHECK(csv != synthetic_sentences(4000, 2));
  std::string error;
  const auto table = parse_csv("f", csv, error);
  REQUIRE(table);
  for (const char* inside : {",", "\"", "\n"})
    CHECK(std::any_of(table->rows.begin(), table->rows.end(),
                      [&](const auto& row) { return row[1].find(inside) != std::string::npos; }));
  const auto read = parse_sentences("f", csv, {}, error);
  REQUIRE(read);
  CHECK(read->size() == 4000);
  CHECK(read->skipped == 0);
  // The best that "liked it, as this word is (not) in it" can do.
  std::map<std::uint32_t, std::pair<int, int>> count;
  for (std::size_t i = 0; i < read->size(); ++i)
    for (const std::uint32_t word :
         std::set<std::uint32_t>(read->words[i].begin(), read->words[i].end()))
      ++(read->labels[i] == 1 ? count[word].first : count[word].second);
  int best = 0;
  for (const auto& [word, seen] : count)
    best = std::max(best, 2000 + std::abs(seen.first - seen.second));
  CHECK(best < 2400);
}

}  // namespace
}  // namespace hvdrun
