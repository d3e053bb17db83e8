// Reductions across hosts, see hosts_communicator.h.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "worker/comm/hosts_exchange.h"
#include "worker/comm/hosts_operation.h"
#include "worker/comm/reduce.h"

namespace hvdrun {

class HostsReduce {
 public:
  explicit HostsReduce(HostsOperation& operation);

  // `count` elements of every rank at `input`, reduced; a step of the operation that runs.
  void to_all(const std::byte* input, std::byte* output, std::size_t count,
              const Reduction& reduction, const CallOptions& step);
  // The results of [begin, begin + part) only, to this rank's `output`.
  void to_part(const std::byte* input, std::byte* output, std::size_t count, std::size_t begin,
               std::size_t part, const Reduction& reduction, const CallOptions& step);

  // A job's small operand as a whole, in bytes.
  static constexpr std::size_t kSmallBytes = 64U << 10;

 private:
  // Results of elements [begin, begin + count) are there.
  using Deliver =
      std::function<void(const std::byte* results, std::size_t begin, std::size_t count)>;

  struct Chunks;

  bool is_small(std::size_t bytes) const;
  void small(const std::byte* input, std::byte* output, std::size_t count,
             const Reduction& reduction, const CallOptions& step);
  void pass_hosts(Chunks& chunks);
  void forward(Chunks& chunks, std::size_t chunk);
  void back(Chunks& chunks, std::size_t chunk);

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
