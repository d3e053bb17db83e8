// The types of elements, how they are reduced, and what comes of the numbers at their edges. A part
// of <hvd/hvd.h>, C++17.
//
// Numbers. The same on every rank, for any size, buffers and process set, on one host or several.
// The same on any processor, and whatever the calling thread's mode for floating-point numbers is.
//
//                    float16, bfloat16, float32, float64            integers
//   min, max         a rank's NaN gives NaN; -0 is less than 0      exact
//   sum              IEEE 754: with a NaN NaN, inf - inf is NaN,    wraps
//                    -0 only where all are -0, beyond the largest
//                    number infinity, subnormals are kept
//   product          IEEE 754: with a NaN NaN, 0 * inf is NaN       wraps
//   average          the sum, which may become infinite, then       the sum, which has 64 bits and
//                    divided                                        wraps in int64 only, divided
//                                                                   and truncated toward zero
//   prescale,        in float32 (float64 for float64), 0 * inf      in float64, then truncated
//   postscale        is NaN; NaN is Error(invalid_argument)         toward zero and limited to what
//                                                                   the type holds; NaN becomes 0
//   adasum           a NaN or an infinity anywhere in a tensor of   Error(invalid_argument)
//                    any rank makes all of that tensor NaN
//
// float16 and bfloat16 are combined in float32, in the order of the ranks, and rounded once: the
// average of two largest float16 is that number. Of two NaNs in a sum or a product either may be
// the result; bits of a NaN are no promise. Of a boolean (any byte but 0 is true, results are 0 or
// 1) sum and max are "or", product and min are "and"; there is no average and no scaling.
//
// Memory of a GPU. Adasum, the factors, min and max are as above, by our kernels. For min and max
// NCCL, which ignores a NaN, gets integers of the numbers' order. They need at most 32 MiB of the
// GPU besides, allreduces of float32 and float64 nothing. Booleans, sums and products of integers
// are as above, too. What else NCCL does as it does, in an order of its own:
//   float16 and bfloat16 are rounded after each factor, addition and product, and may become
//   infinite then;
//   an average of floating-point numbers divides before it adds, by a factor that is rounded to
//   their type: of finite ones it is infinite only where rounding leads beyond the type's end, and
//   subnormals may be lost;
//   an average of integers has a sum that wraps in their own type: of two int32 of 2,000,000,000 it
//   is -147,483,648, of two uint8 of 200 it is 72.
// One rank alone has none of these.
#pragma once

#include <cstdint>

namespace hvd {

enum class DataType : std::uint8_t {
  int32 = 1,
  int64 = 2,
  float32 = 3,
  float64 = 4,
  uint8 = 5,
  int8 = 6,
  uint16 = 7,
  int16 = 8,
  float16 = 9,    // IEEE 754 binary16
  bfloat16 = 10,  // the upper half of a float32
  boolean = 11,   // one byte: 0 is false
};
// adasum, in allreduce only and of floating-point types only, is the adaptive sum (Maleki et al.,
// "Scaling Distributed Training with Adaptive Summation", 2020): of two vectors
//   (1 - a.b / 2|a|^2) a + (1 - a.b / 2|b|^2) b
// which is their sum where they are orthogonal and their mean where they are parallel. So the
// learning rate need not change with the number of ranks. More ranks are combined pairwise: 0 with
// 1, 2 with 3 and so on, then the results of these; one without a neighbour waits for the next
// round. Dot products are those of the whole operation's elements, in float64.
enum class ReduceOp : std::uint8_t {
  average = 1,
  sum = 2,
  min = 3,
  max = 4,
  product = 5,
  adasum = 6,
};

// Every input is multiplied by `prescale`, the result by `postscale`.
struct ScaleFactors {
  double prescale = 1;
  double postscale = 1;
};

// The bits of 16-bit floating-point numbers, which C++17 has no types for.
struct Float16 {
  std::uint16_t bits = 0;
};
struct BFloat16 {
  std::uint16_t bits = 0;
};

}  // namespace hvd
