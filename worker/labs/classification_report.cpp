#include "worker/labs/classification_report.h"

#include <algorithm>
#include <cstdio>

#include "common/printable.h"

namespace hvdrun {
namespace {

std::string padded(const std::string& text, std::size_t width, bool to_the_right) {
  const std::string padding(width - std::min(width, text.size()), ' ');
  return to_the_right ? padding + text : text + padding;
}

std::string in_hundredths(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%10.2f", value);
  return text;
}

std::string line_of(const std::string& name, std::size_t width, const ClassScore& score) {
  return padded(name, width, false) + in_hundredths(score.precision) + in_hundredths(score.recall) +
         in_hundredths(score.f1) + padded(std::to_string(score.support), 10, true) + "\n";
}

double share(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
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
                                  const std::vector<std::string>& names) {
  std::vector<std::string> shown;
  std::size_t width = std::string("weighted mean").size();
  for (std::size_t label = 0; label < matrix.classes; ++label) {
    shown.push_back(label < names.size() ? printable(names[label]) : std::to_string(label));
    width = std::max(width, shown.back().size());
  }
  std::string text = padded("class", width, false) + " precision    recall        f1   support\n";
  ClassScore mean;
  ClassScore weighted;
  std::int64_t right = 0;
  for (std::size_t label = 0; label < matrix.classes; ++label) {
    const ClassScore score = score_of(matrix, label);
    text += line_of(shown[label], width, score);
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
  text += padded("accuracy", width, false) + in_hundredths(share(right, mean.support)) + "\n";
  text += "\nconfusion matrix: rows are the class, columns what it was taken for\n";
  for (std::size_t label = 0; label < matrix.classes; ++label) {
    text += padded(shown[label], width, false);
    for (std::size_t other = 0; other < matrix.classes; ++other)
      text += padded(std::to_string(matrix.at(label, other)), 7, true);
    text += "\n";
  }
  return text;
}

}  // namespace hvdrun
