// Numbers that tests read in the output of `train`.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/integration/helpers/run_program.h"

namespace hvdrun::test {

// In percent, of a run that has ended well.
inline double final_accuracy(const RunResult& result) {
  INFO(result.out << result.err);
  REQUIRE(result.exit_code == 0);
  const auto at = result.out.find("test accuracy ");
  REQUIRE(at != std::string::npos);
  double accuracy = 0;
  REQUIRE(std::sscanf(result.out.c_str() + at, "test accuracy %lf", &accuracy) == 1);
  return accuracy;
}

inline std::vector<std::string> lines_of(const std::string& file) {
  std::ifstream in(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// The file of --loss-log: the loss of each step.
inline std::vector<double> logged_losses(const std::string& file) {
  std::ifstream in(file);
  std::vector<double> values;
  for (double value = 0; in >> value;) values.push_back(value);
  return values;
}

// The largest difference of a step's losses, as a part of the first run's.
inline double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, std::abs(a[i] - b[i]) / std::abs(a[i]));
  return largest;
}

}  // namespace hvdrun::test
