// Allreduces of hosts that have one rank each. Every host reduces a slice of its own, of which the
// others send it their elements, and sends the results to all: as many bytes as in a ring, but two
// messages deep however many hosts there are, and combined in the order of the ranks.
#pragma once

#include <cstddef>
#include <vector>

#include "worker/hvd/comm/hosts/hosts_operation.h"
#include "worker/hvd/comm/reduce/reduce.h"

namespace hvdrun {

class HostsExchange {
 public:
  explicit HostsExchange(HostsOperation& operation) : op_(operation) {}

  // True where every host has one rank and there are not too many: the chunks would become small.
  // Of several ranks on a host all elements would have to be sent, for the order's sake.
  bool fits() const {
    return op_.layout().size() == op_.layout().hosts() && op_.layout().hosts() <= kMostHosts;
  }
  // A step of the operation that runs, before its ranks have agreed.
  void run(const BufferRow& row, const Reduction& reduction);

 private:
  static constexpr std::size_t kMostHosts = 64;
  static constexpr std::size_t kPartsBytes = 8U << 20;  // as much is kept of the others' elements

  struct Slices;

  void send_chunk(const Slices& slices, std::size_t chunk);
  void receive_chunk(const Slices& slices, std::size_t chunk);
  void receive_results(const Slices& slices, std::size_t chunk);
  void reduce_chunk(const Slices& slices, std::size_t chunk);

  HostsOperation& op_;
  std::vector<const std::byte*> sources_;
  std::vector<std::byte> parts_;  // two chunks from each host
};

}  // namespace hvdrun
