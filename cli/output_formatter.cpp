#include "cli/output_formatter.h"

#include <string_view>

namespace hvdrun {

std::string OutputFormatter::format(const Output& message) {
  const Source source{message.rank, message.stream};
  const std::string prefix = "[" + std::to_string(message.rank) +
                             (message.stream == OutputStream::out ? "]<stdout>:" : "]<stderr>:");
  std::string text;
  bool at_start = true;
  if (unfinished_) {
    if (*unfinished_ == source) {
      at_start = false;
    } else {
      text += '\n';
    }
  }
  std::string_view rest = message.bytes;
  if (after_cr_ == source && rest.starts_with('\n')) {
    text += '\n';
    rest.remove_prefix(1);
  }
  after_cr_.reset();
  if (message.bytes.ends_with('\r')) after_cr_ = source;
  while (!rest.empty()) {
    const auto end = rest.find_first_of("\n\r");
    std::size_t size = end == std::string_view::npos ? rest.size() : end + 1;
    // \r\n is one line end.
    if (size < rest.size() && rest[size - 1] == '\r' && rest[size] == '\n') ++size;
    if (at_start) text += prefix;
    text += rest.substr(0, size);
    at_start = end != std::string_view::npos;
    rest.remove_prefix(size);
  }
  unfinished_.reset();
  if (!at_start) unfinished_ = source;
  return text;
}

}  // namespace hvdrun
