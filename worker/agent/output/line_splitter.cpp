#include "worker/agent/output/line_splitter.h"

#include <utility>

#include "common/base/limits.h"

namespace hvdrun {

void LineSplitter::feed(std::string_view bytes, std::string& out, bool& partial) {
  partial = false;
  const std::size_t last = bytes.find_last_of("\n\r");
  if (last != std::string_view::npos) {
    out += rest_;
    out += bytes.substr(0, last + 1);
    rest_ = bytes.substr(last + 1);
  } else {
    rest_ += bytes;
  }
  if (rest_.size() > limits::kMaxOutputLine) {
    out += rest_;
    rest_.clear();
    partial = true;
  }
}

std::string LineSplitter::take_rest() { return std::exchange(rest_, {}); }

}  // namespace hvdrun
