// Broadcast, allgather and alltoall across hosts, see hosts_communicator.h. Each function is the
// body of an operation that runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "worker/hvd/comm/hosts/hosts_operation.h"

namespace hvdrun {

class HostsMove {
 public:
  explicit HostsMove(HostsOperation& operation) : op_(operation) {}

  void broadcast(std::byte* data, std::size_t bytes, std::size_t root, const CallOptions& step);
  void allgather(const std::byte* input, std::byte* output, const std::size_t* counts,
                 hvd::DataType type, const CallOptions& step);
  // This rank sends the inputs of `row` from element `begin` on.
  void alltoall(const BufferRow& row, std::size_t begin, const std::size_t* send_counts,
                std::byte* output, const std::size_t* receive_counts, hvd::DataType type,
                const CallOptions& step);

 private:
  // A slice from each of this host's channel ranks, where it is, to all ranks of the host.
  void spread(std::byte* data, const ChannelSlices& slices, const CallOptions& step);
  void exchange_counts(const std::size_t* send_counts, const std::size_t* receive_counts);
  void exchange_windows(const BufferRow& row, std::size_t begin, const std::size_t* send_counts,
                        std::byte* output, const std::size_t* receive_counts);
  // Until every rank of every host has come to the end of its part.
  void finish_together(const CallOptions& step);
  std::vector<std::size_t> remote_ranks() const;

  HostsOperation& op_;
  std::vector<std::uint64_t> sent_;
  std::vector<std::uint64_t> received_;
  std::vector<std::byte> staged_;
};

}  // namespace hvdrun
