#include <algorithm>
#include <iterator>
#include <map>
#include <sstream>

#include "tests/unit/worker/hvd/torch/catch_with_torch.h"
#include "worker/labs/base/text_columns.h"
#include "worker/labs/report/classification_report.h"

namespace hvdrun {
namespace {

ConfusionMatrix matrix_of(std::vector<std::int64_t> counts, std::size_t classes) {
  ConfusionMatrix matrix(classes);
  matrix.counts = std::move(counts);
  return matrix;
}

TEST_CASE("precision, recall and F1 are those of the matrix", "[report]") {
  const ConfusionMatrix matrix = matrix_of({8, 2, 0, 4, 5, 1, 0, 0, 0}, 3);
  const ClassScore first = score_of(matrix, 0);
  CHECK(first.precision == Approx(8.0 / 12));
  CHECK(first.recall == Approx(0.8));
  CHECK(first.f1 == Approx(2 * (8.0 / 12) * 0.8 / (8.0 / 12 + 0.8)));
  CHECK(first.support == 10);
  CHECK(score_of(matrix, 1).recall == Approx(0.5));
  // Nobody is of it, one was taken for it.
  const ClassScore none = score_of(matrix, 2);
  CHECK(none.precision == 0);
  CHECK(none.recall == 0);
  CHECK(none.f1 == 0);
  CHECK(none.support == 0);
}

TEST_CASE("a report has a line for each class, the means and the matrix", "[report]") {
  const std::string text = classification_report(matrix_of({3, 1, 0, 4}, 2), {"cats"});
  CHECK(text ==
        "class         precision    recall        f1   support\n"
        "cats               1.00      0.75      0.86         4\n"
        "1                  0.80      1.00      0.89         4\n"
        "mean               0.90      0.88      0.87         8\n"
        "weighted mean      0.90      0.88      0.87         8\n"
        "accuracy           0.88\n"
        "\n"
        "confusion matrix: rows are the class, columns what it was taken for\n"
        "               cats     1\n"
        "cats              3     1\n"
        "1                 0     4\n");
  CHECK(classification_report(ConfusionMatrix(1), {}).find("accuracy           0.00") !=
        std::string::npos);
}

// Each line's columns; none of the names here has more than one byte a character.
std::size_t widest_line(const std::string& text) {
  std::size_t widest = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) widest = std::max(widest, line.size());
  return widest;
}

// A matrix of `classes` classes: each count tells its row and column.
ConfusionMatrix numbered_matrix(std::size_t classes) {
  ConfusionMatrix matrix(classes);
  for (std::size_t is = 0; is < classes; ++is)
    for (std::size_t taken_for = 0; taken_for < classes; ++taken_for)
      matrix.at(is, taken_for) = static_cast<std::int64_t>(1000 + classes * is + taken_for);
  return matrix;
}

// A reader's view: the heads of each block, and by them every count.
std::map<std::string, std::int64_t> counts_read(const std::string& text, std::size_t row_head) {
  std::map<std::string, std::int64_t> found;
  std::istringstream lines(text.substr(text.find("was taken for\n") + 14));
  std::vector<std::string> heads;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::vector<std::string> all(std::istream_iterator<std::string>(words), {});
    if (all.empty()) continue;
    if (line.front() == ' ' && line.find_first_not_of(' ') >= row_head) {
      heads = all;
      continue;
    }
    const std::size_t first = all.size() - heads.size();
    for (std::size_t i = 0; i < heads.size(); ++i)
      found[all.front() + " " + heads[i]] = std::stoll(all[first + i]);
  }
  return found;
}

TEST_CASE("a report of any number of classes fits into its columns, with all heads", "[report]") {
  for (const std::size_t classes : {2U, 7U, 50U, 100U}) {
    const ConfusionMatrix matrix = numbered_matrix(classes);
    for (const bool named : {false, true}) {
      std::vector<std::string> names;
      for (std::size_t i = 0; i < classes && named; ++i)
        names.push_back("Name_of_a_painter_" + std::to_string(i));
      for (const std::size_t columns : {0U, 20U, 53U, 60U, 80U, 100U, 133U, 400U}) {
        const std::string text = classification_report(matrix, names, columns);
        CAPTURE(classes, named, columns, text);
        CHECK(widest_line(text) <= std::max<std::size_t>(columns, 68));
        std::istringstream lines(text);
        std::size_t of_table = 0;
        for (std::string line; std::getline(lines, line) && !line.empty(); ++of_table)
          CHECK(line.size() <= std::max<std::size_t>(columns, 53));
        CHECK(of_table == classes + 4);
        const bool by_name = text.find("\nName_of") != std::string::npos;
        if (named && classes == 7) CHECK(by_name == (columns == 400));
        const auto counts = counts_read(text, 13);
        CHECK(counts.size() == classes * classes);
        for (std::size_t is = 0; is < classes; ++is) {
          for (std::size_t as = 0; as < classes; ++as) {
            const auto key = [&](std::size_t i) { return by_name ? names[i] : std::to_string(i); };
            const auto found = counts.find(key(is) + " " + key(as));
            REQUIRE(found != counts.end());
            REQUIRE(found->second == matrix.at(is, as));
          }
        }
      }
    }
  }
}

TEST_CASE("a matrix that nobody reads is left to the file", "[report]") {
  const std::string text = classification_report(numbered_matrix(101), {});
  CHECK_THAT(text, Catch::EndsWith("\nconfusion matrix: 101 classes, at most 100 are shown here; "
                                   "--report FILE writes all\n"));
  CHECK(classification_report(ConfusionMatrix(0), {}) == "no classes\n");
}

TEST_CASE("letters of more than one byte are one column, and are not torn", "[report]") {
  CHECK(columns_of("D\u00fcrer") == 5);
  CHECK(cut_to("D\u00fcrer", 5) == "D\u00fcrer");
  CHECK(cut_to("\u00fc\u00fc\u00fc\u00fc", 3) == "\u00fc..");
  CHECK(cut_to("abc", 1) == ".");
  CHECK(cut_to("abc", 0).empty());
  CHECK(left_aligned("\u00fc", 3) == "\u00fc  ");
  CHECK(right_aligned("\u00fc", 3) == "  \u00fc");
}

TEST_CASE("the table for programs has every figure once", "[report]") {
  const ConfusionMatrix matrix = matrix_of({3, 1, 0, 4}, 2);
  CHECK(report_table(matrix, {"cats, \"big\"", "a\nb"}, ',') ==
        "class,precision,recall,f1,support,\"taken for cats, \"\"big\"\"\",\"taken for a\nb\"\n"
        "\"cats, \"\"big\"\"\",1,0.75,0.857142857,4,3,1\n"
        "\"a\nb\",0.8,1,0.888888889,4,0,4\n");
  CHECK(report_table(matrix, {"a,b"}, '\t') ==
        "class\tprecision\trecall\tf1\tsupport\ttaken for a,b\ttaken for 1\n"
        "a,b\t1\t0.75\t0.857142857\t4\t3\t1\n"
        "1\t0.8\t1\t0.888888889\t4\t0\t4\n");
}

}  // namespace
}  // namespace hvdrun
