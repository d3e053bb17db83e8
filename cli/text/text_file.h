// Reads a whole small text file that the user named: hosts, variables, configuration.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/text/user_errors.h"

namespace hvdrun {

// A text that was read from a pipe, by its path: that is possible once, as in --hostfile <(...).
struct PipeText {
  std::string path;
  std::string text;
  template <class V>
  void visit(V& v) {
    v(path);
    v(text);
  }
};
// Those of this process, which read_text_file() answers with. One that starts hvdrun anew in its
// place hands them on.
std::vector<PipeText>& pipe_texts();

// A regular file or a pipe, of at most limits::kMaxTextFile bytes. `where`: the option that named
// it. Throws UsageError.
std::string read_text_file(const std::string& path, const std::string& where);

// Its lines without their ends (\n or \r\n), and without blanks around them.
std::vector<std::string_view> trimmed_lines(std::string_view text);
std::string_view trimmed(std::string_view text);

}  // namespace hvdrun
