// Puts "[rank]<stdout>:" in front of every line. One formatter for each place that is written to:
// it keeps the lines of one rank and stream from being torn by another's. Bytes are not decoded.
// Sans-I/O.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "common/messages.h"

namespace hvdrun {

class OutputFormatter {
 public:
  // What to write for this piece of output.
  std::string format(const Output& message);

 private:
  using Source = std::pair<std::uint32_t, OutputStream>;
  // Who wrote the unfinished line at the end of what was written. Another's line then begins on a
  // new one, and the rest of the unfinished line gets its prefix again.
  std::optional<Source> unfinished_;
  // Whose \r was the last byte: a \n that follows belongs to the same line end.
  std::optional<Source> after_cr_;
};

}  // namespace hvdrun
