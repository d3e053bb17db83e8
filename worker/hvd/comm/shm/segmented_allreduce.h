// An allreduce of many buffers inside a host: they are copied into the slots as they are, and
// reduced from there to where they belong.
#pragma once

#include <cstddef>
#include <vector>

#include "worker/hvd/comm/communicator.h"
#include "worker/hvd/comm/reduce/reduce.h"
#include "worker/hvd/comm/segment_row.h"
#include "worker/hvd/comm/shm/staging.h"

namespace hvdrun {

class SegmentedAllreduce {
 public:
  explicit SegmentedAllreduce(Staging& staging)
      : staging_(staging), sources_(staging.size()), rank_(staging.rank()), size_(staging.size()) {}

  // See Communicator::allreduce_segments().
  void run(const std::vector<BufferPart>& segments, const Reduction& reduction,
           const CallOptions& options);

 private:
  void reduce_whole(const SegmentRow& row, const Reduction& reduction, std::size_t begin,
                    std::size_t count);
  void reduce_slices(const SegmentRow& row, const Reduction& reduction, std::size_t begin,
                     std::size_t count);

  Staging& staging_;
  std::vector<const std::byte*> sources_;
  const std::size_t rank_;
  const std::size_t size_;
};

}  // namespace hvdrun
