#include "common/net/port_range.h"

#include <charconv>
#include <system_error>

namespace hvdrun {

bool parse_port_range(const std::string& text, PortRange& range) {
  const char* const end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, range.first);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != '-') return false;
  const auto last = std::from_chars(first.ptr + 1, end, range.last);
  return last.ec == std::errc() && last.ptr == end && range.first > 0 && range.first <= range.last;
}

}  // namespace hvdrun
