// Output that waits to be shown on one console: a lane for every rank, served in turn, so that a
// rank that floods delays the others by one message. How much may wait is bounded by the ranks'
// credit. Sans-I/O.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>

#include "common/wire/messages.h"

namespace hvdrun {

struct OutputItem {
  enum class Kind { output, closed, notice };
  Kind kind = Kind::output;
  Output message;  // closed: its rank and stream; notice: its bytes are a line of hvdrun's own
};

class OutputQueue {
 public:
  // Items of one rank come out in the order they went in. A notice comes out after everything that
  // went in before it.
  void push(OutputItem item);
  std::optional<OutputItem> pop();
  // The rank's next one, out of its turn.
  std::optional<OutputItem> pop_of(std::uint32_t rank);
  bool empty() const { return turns_.empty() && notices_.empty(); }

 private:
  struct Entry {
    std::uint64_t number = 0;
    OutputItem item;
  };

  bool notice_is_due() const;
  OutputItem take(std::uint32_t rank);  // of a lane that is there, whose turn has been taken away

  std::unordered_map<std::uint32_t, std::deque<Entry>> lanes_;  // by rank; none is empty
  std::deque<std::uint32_t> turns_;                             // the ranks of the lanes
  std::deque<Entry> notices_;
  std::uint64_t next_number_ = 0;
};

}  // namespace hvdrun
