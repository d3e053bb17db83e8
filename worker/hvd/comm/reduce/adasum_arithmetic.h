// The arithmetic of the adaptive sum of two vectors. The same bits on every machine.
#pragma once

#include <cstddef>

namespace hvdrun {

// Products of two vectors a and b, or of pieces of them: pieces are added up.
struct DotProducts {
  double both = 0;    // a.b
  double first = 0;   // a.a
  double second = 0;  // b.b
};
static_assert(sizeof(DotProducts) == 3 * sizeof(double));

DotProducts dot_products(const float* a, const float* b, std::size_t count);
DotProducts dot_products(const double* a, const double* b, std::size_t count);

// Replaces `a` by the adaptive sum of both; a piece of it, when `dots` are those of the whole
// vectors. A vector of norm 0 leaves the other as it is.
void add_adaptively(float* a, const float* b, std::size_t count, const DotProducts& dots);
void add_adaptively(double* a, const double* b, std::size_t count, const DotProducts& dots);

}  // namespace hvdrun
