#include "worker/hvd/gpu/visible_devices.h"

#include <algorithm>
#include <string_view>

#include <hvd/hvd.h>

namespace hvdrun {
namespace {

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") + 1 - first);
}

bool names_device(std::string_view entry) {
  if (entry.starts_with("GPU-") || entry.starts_with("MIG-")) return true;
  return !entry.empty() &&
         std::all_of(entry.begin(), entry.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::string counted(int number, const char* what) {
  return std::to_string(number) + " " + what + (number == 1 ? "" : "s");
}

}  // namespace

VisibleDevices parse_visible_devices(const char* value) {
  VisibleDevices visible;
  if (value == nullptr) return visible;
  visible.all = false;
  for (std::string_view rest = value; !rest.empty();) {
    const auto end = std::min(rest.find(','), rest.size());
    const std::string_view entry = trimmed(rest.substr(0, end));
    if (!names_device(entry)) break;
    visible.names.emplace_back(entry);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return visible;
}

int choose_device(int local_rank, int local_size, int devices, const VisibleDevices& visible,
                  bool may_share) {
  if (may_share) return local_rank % devices;
  if (local_size <= devices) return local_rank;
  std::string list;
  for (const std::string& name : visible.names) list += (list.empty() ? "" : ",") + name;
  throw hvd::Error(
      hvd::ErrorCode::unavailable,
      "this host has " + counted(local_size, "rank") + " and " + counted(devices, "GPU") +
          (visible.all ? "" : std::string(" (") + kVisibleDevicesVariable + "=" + list + ")") +
          ": start at most " + counted(devices, "rank") + " here, as in -H HOST:" +
          std::to_string(devices) + ", or run on the CPU with --gpus none");
}

}  // namespace hvdrun
