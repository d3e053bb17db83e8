#include "worker/comm/communicator.h"

#include "worker/comm/copy.h"
#include "worker/comm/segment_row.h"

namespace hvdrun {

// Two copies; a communicator that can do with less has its own.
void Communicator::allreduce_segments(const std::vector<BufferPart>& segments,
                                      const Reduction& reduction, const CallOptions& options) {
  const std::size_t width = element_size(reduction.type);
  const SegmentRow row(segments, width);
  packed_.resize(std::max<std::size_t>(row.count() * width, 1));
  row.visit(0, row.count(), [&](std::size_t at, const BufferPart& part) {
    copy_bytes(packed_.data() + at * width, static_cast<const std::byte*>(part.input),
               part.count * width);
  });
  allreduce(packed_.data(), packed_.data(), row.count(), reduction, options);
  row.visit(0, row.count(), [&](std::size_t at, const BufferPart& part) {
    copy_bytes(static_cast<std::byte*>(part.output), packed_.data() + at * width,
               part.count * width);
  });
}

}  // namespace hvdrun
