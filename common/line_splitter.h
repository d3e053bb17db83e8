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
  // At the end of the stream: what waits, without a line end.
  std::string take_rest();

 private:
  std::string rest_;
};

}  // namespace hvdrun
