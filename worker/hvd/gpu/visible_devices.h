// CUDA_VISIBLE_DEVICES, which GPU a rank uses among those that it leaves, and the words for it.
// Sans-I/O.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace hvdrun {

inline constexpr const char* kVisibleDevicesVariable = "CUDA_VISIBLE_DEVICES";

struct VisibleDevices {
  bool all = true;                 // the variable is not set
  std::vector<std::string> names;  // otherwise: numbers, UUIDs, as they stand there
  bool none() const { return !all && names.empty(); }
};

// As the driver reads it: a list that ends before the first entry that names no device, as -1 does.
// `value` null: the variable is not set.
VisibleDevices parse_visible_devices(const char* value);

// The GPU that a rank uses, as a number among those that are visible. `devices`: how many the
// driver shows, at least one. More ranks of a host than GPUs: Error(unavailable), one line with
// both numbers, unless they may share (tests).
int choose_device(int local_rank, int local_size, int devices, const VisibleDevices& visible,
                  bool may_share = false);

}  // namespace hvdrun
