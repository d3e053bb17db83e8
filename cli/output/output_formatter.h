// Makes the text of a console from pieces of output: the tag in front of every line, and the lines
// of one rank and stream never torn by another's. One formatter for each console. Bytes are not
// decoded. Sans-I/O.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/output/output_tag.h"
#include "common/wire/messages.h"

namespace hvdrun {

class OutputFormatter {
 public:
  explicit OutputFormatter(OutputTag tag) : tag_(std::move(tag)) {}

  // As Viewer's.
  void grow() { tag_.grow(); }
  void begin_epoch(const std::vector<EpochMember>& members) { tag_.begin_epoch(members); }

  // The text to write for this piece of output: the piece itself where nothing has to be put in.
  // Valid until the next call, and as long as the piece.
  const std::string& format(const Output& message, WallTime now);
  // For whole lines that these ranks (sorted) have all written.
  const std::string& format_folded(const std::vector<std::uint32_t>& ranks, OutputStream stream,
                                   std::string_view lines, WallTime now);
  // At the end of a stream: a last line that was left without an end gets one, unless lines are
  // shown as they are.
  const std::string& format_end(std::uint32_t rank, OutputStream stream);
  // The last line that was written is the source's, and has not ended.
  bool is_open(std::uint32_t rank, OutputStream stream) const {
    return unfinished_ == Source{rank, stream};
  }
  // A line of hvdrun's own.
  const std::string& format_notice(std::string_view line);

 private:
  using Source = std::pair<std::uint32_t, OutputStream>;

  // Ends a line that somebody else has left open.
  void begin(const std::optional<Source>& source);
  void append_lines(std::string_view bytes, const std::string& tag, bool at_start);

  OutputTag tag_;
  std::string text_;
  std::vector<std::uint32_t> one_ = {0};
  // The source of the unfinished line at the end of what was written. Another's line then begins on
  // a new one, and the rest of the unfinished line gets its tag again.
  std::optional<Source> unfinished_;
  // The source whose \r was the last byte: a \n that follows belongs to the same line end.
  std::optional<Source> after_cr_;
  bool ends_with_cr_ = false;  // a progress bar stands in the line that comes next
};

}  // namespace hvdrun
