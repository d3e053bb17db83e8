// The last lines that each rank wrote to stderr, for the summary of a failed job. Bounded for each
// rank; a rank that writes nothing there costs nothing. Sans-I/O.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

class StderrTail {
 public:
  // Bytes as they come; lines end at \n or \r.
  void add(std::uint32_t rank, std::string_view bytes);
  // Oldest first, without their line ends; a line that is too long is cut.
  std::vector<std::string> lines(std::uint32_t rank) const;

 private:
  struct Tail {
    std::deque<std::string> lines;
    std::string open;  // the line that has not ended yet
  };
  std::map<std::uint32_t, Tail> ranks_;
};

}  // namespace hvdrun
