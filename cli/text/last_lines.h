// The last line that each rank wrote, on either stream, for those who ask how the job stands.
// Sans-I/O.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace hvdrun {

class LastLines {
 public:
  // Bytes as they come; lines end at \n or \r, and one that has not ended yet counts.
  void add(std::uint32_t rank, std::string_view bytes);
  // Cut to what a line of the terminal can hold; "" when the rank has written nothing.
  std::string of(std::uint32_t rank) const;

 private:
  struct Line {
    std::string text;
    bool open = false;  // what comes next belongs to it
  };
  std::map<std::uint32_t, Line> lines_;
};

}  // namespace hvdrun
