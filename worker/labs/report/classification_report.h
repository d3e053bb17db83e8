// A report on each class: how well it is found. No LibTorch in here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace hvdrun {

// Counts of how often a sample of the row's class was taken for the column's.
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

// Where nobody says how wide a line may be.
inline constexpr std::size_t kReportColumns = 100;
// A matrix of more classes is not printed: nobody reads it.
inline constexpr std::size_t kMostClassesShown = 100;

// A table of them with the accuracy and the means, and the matrix. It has blocks of as many classes
// as fit into `columns` side by side, and is never narrower than 53. Classes without a name are
// numbered. Names that are too long as heads have numbers, which stand before them in each line.
std::string classification_report(const ConfusionMatrix& matrix,
                                  const std::vector<std::string>& names,
                                  std::size_t columns = kReportColumns);

// The same for other programs, as a table of fields that `separator` parts (RFC 4180): a line of
// heads, then one for each class with its name, precision, recall, f1, support, and how often it
// was taken for each class. No line for the means, which follow from the others.
std::string report_table(const ConfusionMatrix& matrix, const std::vector<std::string>& names,
                         char separator);

}  // namespace hvdrun
