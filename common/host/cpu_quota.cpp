#include "common/host/cpu_quota.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <system_error>

namespace hvdrun {
namespace {

constexpr std::string_view kRoot = "/sys/fs/cgroup";

// The number that `text` begins with, which is taken off; none for a word, and for 0 and below.
std::optional<double> take_time(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  std::int64_t microseconds = 0;
  const auto [stop, trouble] =
      std::from_chars(text.data(), text.data() + text.size(), microseconds);
  if (trouble != std::errc() || microseconds <= 0) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(stop - text.data()));
  if (!text.empty() && text.front() != ' ' && text.front() != '\n') return std::nullopt;
  return static_cast<double>(microseconds);
}

bool lists(std::string_view names, std::string_view name) {
  while (!names.empty()) {
    const std::size_t end = std::min(names.find(','), names.size());
    if (names.substr(0, end) == name) return true;
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return false;
}

}  // namespace

double quota_cores(const QuotaFiles& files) {
  std::string_view v2 = files.cpu_max;
  if (const auto quota = take_time(v2))
    if (const auto period = take_time(v2)) return *quota / *period;
  std::string_view v1_quota = files.cfs_quota_us;
  std::string_view v1_period = files.cfs_period_us;
  if (const auto quota = take_time(v1_quota))
    if (const auto period = take_time(v1_period)) return *quota / *period;
  return std::numeric_limits<double>::infinity();
}

std::vector<std::string> quota_folders(std::string_view proc_cgroup) {
  std::vector<std::string> folders;
  while (!proc_cgroup.empty()) {
    const std::size_t end = std::min(proc_cgroup.find('\n'), proc_cgroup.size());
    const std::string_view line = proc_cgroup.substr(0, end);
    proc_cgroup.remove_prefix(std::min(end + 1, proc_cgroup.size()));
    // NUMBER:CONTROLLERS:/PATH, without controllers in version 2.
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string_view::npos ? first : line.find(':', first + 1);
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = line.substr(first + 1, second - first - 1);
    std::string_view path = line.substr(second + 1);
    if (path.substr(0, 1) != "/") continue;
    std::string root(kRoot);
    if (!controllers.empty()) {
      if (!lists(controllers, "cpu")) continue;
      root.append("/").append(controllers);
    }
    if (path == "/") path = "";
    while (!path.empty()) {
      folders.push_back(root + std::string(path));
      path = path.substr(0, path.rfind('/'));
    }
    folders.push_back(root);
  }
  return folders;
}

std::uint32_t cores_within(double quota, std::uint32_t cores) {
  const std::uint32_t all = std::max(1U, cores);
  if (quota >= all) return all;
  return std::max(1U, static_cast<std::uint32_t>(std::floor(quota)));
}

}  // namespace hvdrun
