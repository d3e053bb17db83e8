// A joined rank's work for the others: it takes part in their operations with elements that change
// nothing, and throws away what comes of them. Sans-I/O.
//
// A sum and an average count it with zeros, so an average is still divided by all ranks; of an
// allgather its part is zeros, of an alltoall it sends zeros.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "worker/hvd/engine/operation.h"

namespace hvdrun {

// Operations in a row, without their buffers.
std::string encode_operations(const std::vector<const Operation*>& operations);
// Throws Error(internal) for what is no such row.
std::vector<Operation> decode_operations(std::string_view bytes);

// The reason why ranks that have joined cannot take part in it; empty when they can. Any of several
// ranks' views of the operation will do, and it is the same on every rank. `joined`: by rank.
std::string stand_in_obstacle(const Operation& operation, const std::vector<bool>& joined);

// The operation as rank `rank` runs it, with the memory it runs on. `views`: by rank, the operation
// as that rank has submitted it; null for those that have joined.
struct StandIn {
  Operation operation;
  std::vector<std::byte> input;
  std::vector<std::byte> output;
  std::shared_ptr<void> on_gpu;  // what it runs on instead
};
std::unique_ptr<StandIn> make_stand_in(const std::vector<const Operation*>& views,
                                       std::size_t rank);

}  // namespace hvdrun
