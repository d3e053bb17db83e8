// The adaptive sum of all ranks' vectors (ReduceOp::adasum), made of other collectives: it runs
// wherever they do, and its bits do not depend on how the ranks are spread over hosts.
//
// The ranks' vectors are combined in rounds: the first with the second, the third with the fourth
// and so on, in the order of the ranks; an odd one out goes to the next round unchanged. For a
// power of two these are the pairs of a recursive doubling of distances.
//
// Each rank gets a slice of all ranks' vectors, so that a round needs only its dot products from
// the others: sums over the slices. Little is gathered and combined by everybody.
#pragma once

#include <cstddef>
#include <vector>

#include "worker/hvd/comm/communicator.h"

namespace hvdrun {

// Every rank gets the adaptive sum of all inputs. They are rows of tensors; each tensor is a vector
// of its own, and wherever it is. In place or not overlapping. Of `reduction` the type,
// which is a floating-point one, and the scale factors; float16 and bfloat16 are combined in
// float32 and rounded once.
//
// Only the first step finds that ranks have called different things, and writes nothing of the
// caller's; every step has the whole timeout. Takes as much memory besides as the input is as
// float32 (float64: as it is); for many tensors kAdasumBatchBytes, or what the largest one takes.
// Where tensors do not follow each other in memory, their results take a batch more.
inline constexpr std::size_t kAdasumBatchBytes = 32U << 20;
void adasum(Communicator& communicator, const std::vector<BufferPart>& tensors,
            const Reduction& reduction, const CallOptions& options);

}  // namespace hvdrun
