// Cuts a worker's output into whole lines: a line ends with \n or \r (progress bars). Bytes are
// never decoded. A line over limits::kMaxOutputLine is passed on in parts. Sans-I/O.
#pragma once

#include <string>
#include <string_view>

namespace hvdrun {

class LineSplitter {
 public:
  // Appends the whole lines that `bytes` completes to `out`; the rest waits. `partial` tells
  // whether what was appended ends in the middle of a line, because the line is over the limit.
  void feed(std::string_view bytes, std::string& out, bool& partial);
  // The rest that waits without a line end: the stream has ended, or nothing has followed for a
  // while.
  std::string take_rest();
  bool has_rest() const { return !rest_.empty(); }

 private:
  std::string rest_;
};

}  // namespace hvdrun
