// The adaptive sum of all ranks' vectors, computed serially and apart from the library's: from the
// definition, on lists of vectors, with dot products in long double.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace hvdrun::test {

using Vector = std::vector<double>;

inline long double dot(const Vector& a, const Vector& b) {
  long double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<long double>(a[i]) * b[i];
  return sum;
}

inline Vector adaptive_sum(const Vector& a, const Vector& b) {
  const long double both = dot(a, b);
  const long double aa = dot(a, a);
  const long double bb = dot(b, b);
  const auto of_a = static_cast<double>(aa == 0 ? 1 : 1 - both / (2 * aa));
  const auto of_b = static_cast<double>(bb == 0 ? 1 : 1 - both / (2 * bb));
  Vector sum(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) sum[i] = of_a * a[i] + of_b * b[i];
  return sum;
}

// Neighbours first; an odd one out goes up as it is.
inline Vector adaptive_sum(std::vector<Vector> vectors) {
  while (vectors.size() > 1) {
    std::vector<Vector> next;
    for (std::size_t i = 0; i < vectors.size(); i += 2)
      next.push_back(i + 1 < vectors.size() ? adaptive_sum(vectors[i], vectors[i + 1])
                                            : vectors[i]);
    vectors = std::move(next);
  }
  return vectors[0];
}

// Each tensor of the rows for itself, with scale factors.
inline Vector adaptive_sum(const std::vector<Vector>& rows, const std::vector<std::size_t>& parts,
                           double prescale, double postscale) {
  Vector result;
  std::size_t begin = 0;
  for (const std::size_t count : parts) {
    std::vector<Vector> vectors;
    for (const Vector& row : rows) {
      vectors.emplace_back(row.begin() + static_cast<std::ptrdiff_t>(begin),
                           row.begin() + static_cast<std::ptrdiff_t>(begin + count));
      for (double& value : vectors.back()) value *= prescale;
    }
    for (const double value : adaptive_sum(std::move(vectors))) result.push_back(value * postscale);
    begin += count;
  }
  return result;
}

}  // namespace hvdrun::test
