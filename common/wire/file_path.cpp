#include "common/wire/file_path.h"

#include <algorithm>
#include <cstddef>

#include "common/base/limits.h"

namespace hvdrun {
namespace {

constexpr std::size_t kMaxName = 255;

bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  constexpr unsigned char kSpace = 0x20;
  constexpr unsigned char kDelete = 0x7f;
  return byte < kSpace || byte == kDelete;
}

bool is_plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.size() <= kMaxName &&
         !name.starts_with(kUnderWayPrefix) && std::none_of(name.begin(), name.end(), is_control);
}

}  // namespace

bool is_plain_path(std::string_view path) {
  if (path.size() > limits::kMaxFilePath) return false;
  for (std::size_t depth = 1; depth <= limits::kMaxFileDepth; ++depth) {
    const auto slash = path.find('/');
    if (!is_plain_name(path.substr(0, slash))) return false;
    if (slash == path.npos) return true;
    path.remove_prefix(slash + 1);
  }
  return false;
}

}  // namespace hvdrun
