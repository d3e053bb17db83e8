#include "cli/options/gpu_option.h"

#include <algorithm>
#include <string_view>

#include "cli/hosts/host_item.h"
#include "cli/options/option_values.h"
#include "common/base/printable.h"

namespace hvdrun {
namespace {

constexpr const char* kExample =
    "write auto, none, or the GPUs of each host, as in gpu1=0,2;gpu2=1";
constexpr std::size_t kMaxDevices = 1024;  // of one host

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const auto end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

// A number, or a UUID of a GPU or of a part of one.
bool is_device(std::string_view text) {
  std::string_view rest = text;
  const bool uuid = rest.starts_with("GPU-") || rest.starts_with("MIG-");
  if (uuid) rest.remove_prefix(4);
  const std::string_view known = uuid ? "0123456789abcdefABCDEF-/" : "0123456789";
  return !rest.empty() && rest.size() <= (uuid ? 80 : 4) &&
         rest.find_first_not_of(known) == std::string_view::npos;
}

GpuOption::Host read_devices(const OptionUse& use, std::string_view item, std::string_view list) {
  GpuOption::Host host;
  std::vector<std::string_view> devices = split(list, ',');
  for (const std::string_view device : devices)
    if (!is_device(device))
      throw bad_value(use,
                      quoted_word(device) + " in " + quoted_word(item) + " is no GPU; " + kExample);
  if (devices.size() > kMaxDevices)
    throw bad_value(use, "more than " + std::to_string(kMaxDevices) + " GPUs of one host");
  host.devices = list;
  host.count = devices.size();
  std::sort(devices.begin(), devices.end());
  if (const auto twice = std::adjacent_find(devices.begin(), devices.end()); twice != devices.end())
    throw bad_value(use, "GPU " + std::string(*twice) + " stands twice in " + quoted_word(item));
  return host;
}

}  // namespace

void take_gpus(Options& options, const OptionUse& use) {
  GpuOption gpus;
  gpus.where = use.where;
  const std::string& value = use.value();
  if (value == "auto" || value == "none") {
    gpus.mode = value == "none" ? GpuOption::Mode::none : GpuOption::Mode::automatic;
    options.gpus = std::move(gpus);
    return;
  }
  gpus.mode = GpuOption::Mode::listed;
  for (const std::string_view item : split(value, ';')) {
    const auto equals = item.find('=');
    if (equals == std::string_view::npos || equals == 0)
      throw bad_value(use, (item.empty() ? "an empty item" : "no host in " + quoted_word(item)) +
                               "; " + kExample);
    HostItem hosts;
    const std::string name(item.substr(0, equals));
    std::string problem = parse_host_item(name, hosts);
    if (problem.empty() && (hosts.slots || hosts.login.is_given()))
      problem = quoted_word(name) + " is more than a name";
    if (!problem.empty()) throw bad_value(use, problem);
    GpuOption::Host host = read_devices(use, item, item.substr(equals + 1));
    for (const std::string& one : hosts.names) {
      const auto same = [&](const GpuOption::Host& other) { return other.name == one; };
      if (std::any_of(gpus.hosts.begin(), gpus.hosts.end(), same))
        throw bad_value(use, quoted_word(one) + " stands there twice");
      host.name = one;
      gpus.hosts.push_back(host);
    }
  }
  options.gpus = std::move(gpus);
}

}  // namespace hvdrun
