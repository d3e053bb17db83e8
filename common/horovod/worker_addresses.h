// The words of a rank of an elastic Horovod program on itself when it enters hvd.elastic.run: where
// it is told that hosts have come or gone, and the key of that (docs/horovod.md). The value is a
// pickle in base64. Of pickle's machine only what builds plain data is understood, so nothing of a
// rank's bytes is ever called. Sans-I/O.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/wire/horovod_messages.h"

namespace hvdrun {

// The scope of these values; the key is HOROVOD_HOSTNAME:LOCAL_RANK.
inline constexpr std::string_view kWorkerAddresses = "worker_addresses";

struct WorkerAddresses {
  static constexpr std::size_t kMaxValue = 64U << 10;  // bytes
  static constexpr std::size_t kMaxEndpoints = 64;     // the rest is not looked at

  std::vector<HorovodEndpoint> endpoints;  // in the order given; may be none
  std::string key;
};

// None: it is nothing of the kind.
std::optional<WorkerAddresses> read_worker_addresses(std::string_view value);

}  // namespace hvdrun
