#include "worker/labs/report/classification_report.h"

#include <algorithm>
#include <cstdio>

#include "common/base/printable.h"
#include "worker/labs/base/text_columns.h"

namespace hvdrun {
namespace {

constexpr std::size_t kNumberColumns = 10;  // of a number of the table
constexpr std::size_t kTableColumns = 4 * kNumberColumns;
constexpr std::size_t kLongestName = 32;

std::string in_hundredths(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%10.2f", value);
  return text;
}

std::string line_of(const std::string& name, std::size_t width, const ClassScore& score) {
  return left_aligned(name, width) + in_hundredths(score.precision) + in_hundredths(score.recall) +
         in_hundredths(score.f1) + right_aligned(std::to_string(score.support), kNumberColumns) +
         "\n";
}

std::string name_of(const std::vector<std::string>& names, std::size_t label) {
  return label < names.size() ? names[label] : std::to_string(label);
}

double share(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

// The names before the lines of classes, and those above the columns of the matrix.
struct Heads {
  std::vector<std::string> rows;
  std::vector<std::string> columns;
  std::size_t row_width = std::string("weighted mean").size();
  std::size_t column_width = 0;
};

Heads heads_of(const ConfusionMatrix& matrix, const std::vector<std::string>& names,
               std::size_t columns) {
  const std::int64_t most = *std::max_element(matrix.counts.begin(), matrix.counts.end());
  const std::size_t of_number = std::to_string(matrix.classes - 1).size();
  const std::size_t of_count = std::max(std::to_string(most).size(), of_number);
  Heads heads;
  std::size_t longest = 0;
  for (std::size_t label = 0; label < matrix.classes; ++label) {
    heads.rows.push_back(printable(name_of(names, label)));
    longest = std::max(longest, columns_of(heads.rows.back()));
  }
  const std::size_t room =
      std::min(kLongestName, std::max(columns, kTableColumns + heads.row_width) - kTableColumns);
  const std::size_t line =
      std::max(heads.row_width, longest) + matrix.classes * (std::max(of_count, longest) + 2);
  heads.columns = heads.rows;
  heads.column_width = std::max(of_count, longest) + 2;
  const bool fits = longest <= room && (longest <= of_count || line <= columns);
  if (!fits) {
    for (std::size_t label = 0; label < matrix.classes; ++label) {
      heads.columns[label] = std::to_string(label);
      heads.rows[label] = right_aligned(heads.columns[label], of_number) + " " +
                          cut_to(heads.rows[label], room - of_number - 1);
    }
    heads.column_width = of_count + 2;
  }
  for (const std::string& head : heads.rows)
    heads.row_width = std::max(heads.row_width, columns_of(head));
  return heads;
}

std::string matrix_text(const ConfusionMatrix& matrix, const Heads& heads, std::size_t columns) {
  if (matrix.classes > kMostClassesShown)
    return "\nconfusion matrix: " + std::to_string(matrix.classes) + " classes, at most " +
           std::to_string(kMostClassesShown) + " are shown here; --report FILE writes all\n";
  std::string text = "\nconfusion matrix: rows are the class, columns what it was taken for\n";
  const std::size_t room = columns - std::min(columns, heads.row_width);
  const std::size_t at_once = std::max<std::size_t>(1, room / heads.column_width);
  for (std::size_t first = 0; first < matrix.classes; first += at_once) {
    const std::size_t last = std::min(first + at_once, matrix.classes);
    if (first > 0) text += "\n";
    text += std::string(heads.row_width, ' ');
    for (std::size_t other = first; other < last; ++other)
      text += right_aligned(heads.columns[other], heads.column_width);
    text += "\n";
    for (std::size_t label = 0; label < matrix.classes; ++label) {
      text += left_aligned(heads.rows[label], heads.row_width);
      for (std::size_t other = first; other < last; ++other)
        text += right_aligned(std::to_string(matrix.at(label, other)), heads.column_width);
      text += "\n";
    }
  }
  return text;
}

std::string quoted_field(const std::string& text, char separator) {
  if (text.find_first_of(std::string("\"\r\n") + separator) == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + "\"";
}

}  // namespace

ClassScore score_of(const ConfusionMatrix& matrix, std::size_t label) {
  ClassScore score;
  std::int64_t taken = 0;
  for (std::size_t other = 0; other < matrix.classes; ++other) {
    score.support += matrix.at(label, other);
    taken += matrix.at(other, label);
  }
  const std::int64_t right = matrix.at(label, label);
  score.precision = share(right, taken);
  score.recall = share(right, score.support);
  const double sum = score.precision + score.recall;
  score.f1 = sum == 0 ? 0 : 2 * score.precision * score.recall / sum;
  return score;
}

std::string classification_report(const ConfusionMatrix& matrix,
                                  const std::vector<std::string>& names, std::size_t columns) {
  if (matrix.classes == 0) return "no classes\n";
  const Heads heads = heads_of(matrix, names, columns);
  const std::size_t width = heads.row_width;
  std::string text = left_aligned("class", width) + " precision    recall        f1   support\n";
  ClassScore mean;
  ClassScore weighted;
  std::int64_t right = 0;
  for (std::size_t label = 0; label < matrix.classes; ++label) {
    const ClassScore score = score_of(matrix, label);
    text += line_of(heads.rows[label], width, score);
    right += matrix.at(label, label);
    const auto add = [&](ClassScore& to, double times) {
      to.precision += times * score.precision;
      to.recall += times * score.recall;
      to.f1 += times * score.f1;
      to.support += score.support;
    };
    add(mean, 1 / static_cast<double>(matrix.classes));
    add(weighted, static_cast<double>(score.support));
  }
  if (weighted.support > 0) {
    const auto all = static_cast<double>(weighted.support);
    weighted.precision /= all;
    weighted.recall /= all;
    weighted.f1 /= all;
  }
  text += line_of("mean", width, mean) + line_of("weighted mean", width, weighted);
  text += left_aligned("accuracy", width) + in_hundredths(share(right, mean.support)) + "\n";
  return text + matrix_text(matrix, heads, columns);
}

std::string report_table(const ConfusionMatrix& matrix, const std::vector<std::string>& names,
                         char separator) {
  std::string text = "class";
  for (const char* const head : {"precision", "recall", "f1", "support"})
    text.append(1, separator).append(head);
  for (std::size_t label = 0; label < matrix.classes; ++label)
    text.append(1, separator).append(quoted_field("taken for " + name_of(names, label), separator));
  text += "\n";
  for (std::size_t label = 0; label < matrix.classes; ++label) {
    const ClassScore score = score_of(matrix, label);
    text += quoted_field(name_of(names, label), separator);
    for (const double part : {score.precision, score.recall, score.f1}) {
      char number[32];
      std::snprintf(number, sizeof number, "%.9g", part);
      text.append(1, separator).append(number);
    }
    text.append(1, separator).append(std::to_string(score.support));
    for (std::size_t other = 0; other < matrix.classes; ++other)
      text.append(1, separator).append(std::to_string(matrix.at(label, other)));
    text += "\n";
  }
  return text;
}

}  // namespace hvdrun
