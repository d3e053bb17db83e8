// How well each class is found. No LibTorch in here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace hvdrun {

// How often a sample of the row's class was taken for the column's.
struct ConfusionMatrix {
  explicit ConfusionMatrix(std::size_t of_classes)
      : classes(of_classes), counts(of_classes * of_classes) {}

  std::int64_t& at(std::size_t is, std::size_t taken_for) {
    return counts[is * classes + taken_for];
  }
  std::int64_t at(std::size_t is, std::size_t taken_for) const {
    return counts[is * classes + taken_for];
  }

  std::size_t classes;
  std::vector<std::int64_t> counts;  // row by row
};

struct ClassScore {
  double precision = 0;  // of what was taken for it, what is
  double recall = 0;     // of what is, what was taken for it
  double f1 = 0;
  std::int64_t support = 0;  // how many are of the class
};
// 0 where there is nothing to divide by.
ClassScore score_of(const ConfusionMatrix& matrix, std::size_t label);

// A table of them with the accuracy and the means, and the matrix. Classes without a name are
// numbered.
std::string classification_report(const ConfusionMatrix& matrix,
                                  const std::vector<std::string>& names);

}  // namespace hvdrun
