// An alltoall inside a host, whose ranks send any number of elements to each other.
#pragma once

#include <cstddef>

#include "worker/hvd/comm/buffer_row.h"
#include "worker/hvd/comm/communicator.h"
#include "worker/hvd/comm/shm/staging.h"

namespace hvdrun {

class ShmAlltoall {
 public:
  explicit ShmAlltoall(Staging& staging)
      : staging_(staging),
        meeting_(staging.meeting()),
        rank_(staging.rank()),
        size_(staging.size()) {}

  // See Communicator::alltoall_from(); in place where the inputs are one part.
  void alltoall(const BufferRow& row, std::size_t begin, const std::size_t* send_counts,
                std::byte* output, const std::size_t* receive_counts, hvd::DataType type,
                const CallOptions& options);

 private:
  // The counts of each rank for each travel behind the slots.
  void publish_counts(const std::size_t* send_counts);
  std::size_t sent(std::size_t rank, std::size_t reader) const;
  std::size_t most_sent(std::size_t rank) const { return sent(rank, size_); }  // to one reader
  // Throws when a rank does not send us what we expect; returns the largest count of all pairs.
  std::size_t agree_on_counts(const std::size_t* receive_counts);
  void read_shared(std::byte* output, const std::size_t* receive_counts, std::size_t width,
                   Copy copy);

  Staging& staging_;
  Meeting& meeting_;
  const std::size_t rank_;
  const std::size_t size_;
};

}  // namespace hvdrun
