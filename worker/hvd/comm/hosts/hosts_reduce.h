// Reductions across hosts, see hosts_communicator.h.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "worker/hvd/comm/hosts/hosts_exchange.h"
#include "worker/hvd/comm/hosts/hosts_operation.h"
#include "worker/hvd/comm/reduce/reduce.h"

namespace hvdrun {

class HostsReduce {
 public:
  explicit HostsReduce(HostsOperation& operation);

  // Every rank's row, reduced; a step of the operation that runs. The ranks' rows may be cut
  // differently.
  void to_all(const BufferRow& row, const Reduction& reduction, const CallOptions& step);
  // The results of [begin, begin + part) only, to this rank's `output`.
  void to_part(const std::byte* input, std::byte* output, std::size_t count, std::size_t begin,
               std::size_t part, const Reduction& reduction, const CallOptions& step);

 private:
  // Results of elements [begin, begin + count) are there.
  using Deliver =
      std::function<void(const std::byte* results, std::size_t begin, std::size_t count)>;

  struct Chunks;

  void small(const BufferRow& row, const Reduction& reduction, const CallOptions& step);
  void exchange_small(std::size_t bytes);
  void pass_hosts(Chunks& chunks);
  void forward(Chunks& chunks, std::size_t chunk);
  void back(Chunks& chunks, std::size_t chunk);
  void reduce_slice(const Chunks& chunks, std::size_t chunk, const PartOfReduction& part,
                    std::byte* target, std::size_t width);

  // Where a chunk's results lie in one piece, and whether that is memory of ours, from where they
  // go to where they belong; null: they come there in pieces.
  struct Place {
    std::byte* memory;
    bool scratch;
  };
  Place place_of(const Chunks& chunks, std::size_t chunk);

  HostsOperation& op_;
  HostsExchange exchange_;
  std::vector<const std::byte*> sources_;
  // Kept from one operation to the next; bounded, see Chunks.
  std::vector<std::byte> gathered_;
  std::vector<std::byte> raw_;
  std::vector<std::byte> prefix_;
  std::vector<std::byte> partial_;
  std::vector<std::byte> results_;
};

}  // namespace hvdrun
