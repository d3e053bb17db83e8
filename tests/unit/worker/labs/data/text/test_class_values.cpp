#include <string>
#include <utility>
#include <vector>

#include "tests/catch.h"
#include "worker/labs/data/text/class_values.h"

namespace hvdrun {
namespace {

using Counted = std::vector<std::pair<std::string, int>>;

ClassValues values_of(const Counted& counted) {
  ClassValues values;
  for (const auto& [value, times] : counted)
    for (int i = 0; i < times; ++i) REQUIRE(values.add(value));
  return values;
}

std::string class_error(const Counted& counted) {
  ClassValues values = values_of(counted);
  std::string error;
  CHECK_FALSE(values.choose(error));
  return error;
}

TEST_CASE("of two values the one that is meant is 1, in any case and order", "[classes]") {
  struct Pair {
    const char* zero;
    const char* one;
    const char* note;
  };
  const Pair pair = GENERATE(
      Pair{"0", "1", ""}, Pair{"0.0", "1.0", ""}, Pair{" 0", "+1 ", ""},
      Pair{"-1", "1", "labels: 1 is 1, -1 is 0"}, Pair{"1", "2", "labels: 2 is 1, 1 is 0"},
      Pair{"0", "4", "labels: 4 is 1, 0 is 0"}, Pair{"2", "10", "labels: 10 is 1, 2 is 0"},
      Pair{"No", "YES", "labels: yes is 1, no is 0"}, Pair{"n", "y", "labels: y is 1, n is 0"},
      Pair{"False", "True", "labels: true is 1, false is 0"},
      Pair{"negative", "positive", "labels: positive is 1, negative is 0"},
      Pair{"neg", "pos", "labels: pos is 1, neg is 0"},
      Pair{"bad", "good", "labels: good is 1, bad is 0"},
      Pair{"ham", "spam", "labels: spam is 1, ham is 0"},
      Pair{"not spam", "spam", "labels: spam is 1, not spam is 0"},
      Pair{"real", "fake", "labels: fake is 1, real is 0"},
      Pair{"incorrect", "correct", "labels: correct is 1, incorrect is 0"},
      Pair{"cats", "dogs", "labels: dogs is 1, cats is 0"});
  for (const bool swapped : {false, true}) {
    CAPTURE(pair.zero, pair.one, swapped);
    ClassValues values = values_of(
        {{swapped ? pair.one : pair.zero, 3}, {swapped ? pair.zero : pair.one, swapped ? 2 : 4}});
    std::string error;
    REQUIRE(values.choose(error));
    CHECK(values.label(pair.zero) == 0);
    CHECK(values.label(pair.one) == 1);
    CHECK_FALSE(values.label("7"));
    CHECK_FALSE(values.label(""));
    CHECK(values.note() == pair.note);
  }
}

TEST_CASE("what has no two classes is an error that shows the values", "[classes]") {
  CHECK(class_error({}) == "two values are expected, there is: ");
  CHECK(class_error({{"1", 7}}) == "two values are expected, there is: '1' 7 times");
  CHECK(class_error({{"1", 7}, {"1.0", 1}, {"", 1}}) ==
        "two values are expected, there is: '1' 8 times, '' 1 times");
  const std::string cure =
      "; leave rows out, or make two values of them (of stars, 0 for 1 and 2, 1 for 4 and 5)";
  CHECK(class_error({{"0", 800}, {"2", 10}, {"4", 800}}) ==
        "two values are expected, there is: '0' 800 times, '2' 10 times, '4' 800 times" + cure);
  CHECK(class_error({{"5", 1}, {"4", 1}, {"3", 1}, {"2", 1}, {"1", 1}, {"x", 1}, {"y", 2}}) ==
        "two values are expected, there is: '5' 1 times, '4' 1 times, '3' 1 times, '2' 1 times, "
        "'1' 1 times and 2 more" +
            cure);
  ClassValues many;
  for (std::size_t i = 0; i < kMaxClassValues; ++i) REQUIRE(many.add(std::to_string(i)));
  CHECK(many.add("1"));
  CHECK_FALSE(many.add("text"));
  // A message stays short.
  CHECK(class_error({{std::string(1000, 'x'), 2}}).size() < 120);
}

TEST_CASE("a hundredth of the rows may have no label or a slip", "[classes]") {
  const auto error_with = [](const Counted& others) {
    Counted all = {{"ham", 700}, {"spam", 290}};
    all.insert(all.end(), others.begin(), others.end());
    ClassValues values = values_of(all);
    std::string error;
    values.choose(error);
    return error;
  };
  CHECK(error_with({{"", 5}, {"NaN", 5}}) == "");
  CHECK(error_with({{"", 5}, {"NaN", 6}}) ==
        "11 of 1001 rows have no value; there is: 'ham' 700 times, 'spam' 290 times, '' 5 times, "
        "'nan' 6 times; leave them out");
  // Each once, or in a hundredth of the smaller class at most: more is a class of its own.
  CHECK(error_with({{"spm", 1}, {"hma", 2}}) == "");
  CHECK(error_with({{"phishing", 3}}).find("'phishing' 3 times; leave rows out") !=
        std::string::npos);
  CHECK(error_with({{"a", 1}, {"b", 1}, {"c", 1}, {"d", 1}, {"", 7}}) != "");
}

}  // namespace
}  // namespace hvdrun
