// Element-wise reduction of several buffers into one result, written to one or more places.
#pragma once

#include <cstddef>
#include <cstdint>

#include <hvd/hvd.h>

namespace hvdrun {

// The arithmetic on the elements. Each is multiplied by `prescale`, they are combined in the order
// of the ranks, and an average is divided by their number. The result is multiplied by `postscale`.
struct Reduction {
  hvd::DataType type = hvd::DataType::float32;
  hvd::ReduceOp op = hvd::ReduceOp::sum;
  double prescale = 1;
  double postscale = 1;
};

// float16 and bfloat16 are combined in float32 and rounded once, to the nearest even. Sums and
// products of integers wrap; their averages and scaled values are truncated toward zero, and a
// scaled value that does not fit is the nearest that does. min and max give NaN where a rank has
// one, and take -0 for less than 0. A bool is 0 or 1, any other byte counts as 1; sum and max are
// "or", product and min are "and". <hvd/numbers.h> has the whole table.
//
// Whatever the calling thread's mode is for floating-point numbers, subnormals are kept, results
// are rounded to the nearest even, and nothing traps (float_mode.h).
//
// ReduceOp::adasum is none of these: its elements depend on each other (adasum.h).
//
// A reduction whose ranks are not all here: those before have been combined already, or others
// follow. What passes between the parts are accumulators, of accumulator_bytes() each; in the order
// of the ranks the parts together give the same bits as one call for all.
struct PartOfReduction {
  const std::byte* prefix = nullptr;  // accumulators of the ranks before; null: these are the first
  bool unfinished = false;            // more ranks follow: the outputs are accumulators
  std::size_t ranks = 0;              // of the whole reduction; 0: those of this call
};
std::size_t accumulator_bytes(const Reduction& reduction);

// `sources` has an element for each rank, `outputs` at least one; none needs alignment. After a
// prefix there may be no rank: what is left to do is to finish the accumulators. An output
// may be one of the sources, or the prefix where the widths are the same; else they must not
// overlap.
void reduce_buffers(const std::byte* const* sources, std::size_t ranks, std::size_t count,
                    const Reduction& reduction, std::byte* const* outputs, std::size_t output_count,
                    const PartOfReduction& part = {});

// The same for each instruction set that this processor has; the first is for any processor, the
// last is the one that reduce_buffers() takes. Their results are the same bits, but for which of
// two NaNs is the result of an addition or a product. In the calling thread's mode. For tests.
struct ReduceVariant {
  const char* name;
  decltype(&reduce_buffers) function;
};
inline constexpr std::size_t kMaxReduceVariants = 3;
// Returns how many there are.
std::size_t reduce_variants(ReduceVariant (&variants)[kMaxReduceVariants]);

}  // namespace hvdrun
