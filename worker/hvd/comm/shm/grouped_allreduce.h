// An allreduce of many buffers inside a host: they are copied into the slots as they are, and
// reduced from there to where they belong.
#pragma once

#include <cstddef>
#include <vector>

#include "worker/hvd/comm/buffer_row.h"
#include "worker/hvd/comm/communicator.h"
#include "worker/hvd/comm/reduce/reduce.h"
#include "worker/hvd/comm/shm/staging.h"

namespace hvdrun {

class GroupedAllreduce {
 public:
  explicit GroupedAllreduce(Staging& staging)
      : staging_(staging), sources_(staging.size()), rank_(staging.rank()), size_(staging.size()) {}

  // See Communicator::grouped_allreduce().
  void allreduce(const std::vector<BufferPart>& parts, const Reduction& reduction,
                 const CallOptions& options);

 private:
  void reduce_whole(const BufferRow& row, const Reduction& reduction, std::size_t begin,
                    std::size_t count);
  void reduce_slices(const BufferRow& row, const Reduction& reduction, std::size_t begin,
                     std::size_t count);

  Staging& staging_;
  std::vector<const std::byte*> sources_;
  const std::size_t rank_;
  const std::size_t size_;
};

}  // namespace hvdrun
