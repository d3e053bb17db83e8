#include "tests/unit/torch/catch_with_torch.h"
#include "worker/labs/classification_report.h"

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
        "cats               3      1\n"
        "1                  0      4\n");
  CHECK(classification_report(ConfusionMatrix(1), {}).find("accuracy           0.00") !=
        std::string::npos);
}

}  // namespace
}  // namespace hvdrun
