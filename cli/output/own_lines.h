// hvdrun's own lines on their way to a reader who may be slow, or never read. Where too much of
// them waits, further ones are left out and counted, until half of it has gone; then a note with
// the count takes their place. The lines themselves wait with the owner. Sans-I/O.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace hvdrun {

class OwnLines {
 public:
  enum class Kind : std::uint8_t {
    news,     // may come again and again
    verdict,  // said once in a job, so it is never left out
  };
  // The line, with its end, that says how many were left out.
  using Note = std::function<std::string(std::uint64_t left_out)>;

  // `limit`: bytes that may wait before the next block is left out.
  OwnLines(std::size_t limit, Note note) : limit_(limit), note_(std::move(note)) {}

  // A block of whole lines, which stay together. Returns what now has to wait for the reader;
  // empty: the block was left out.
  std::string offer(std::string_view block, Kind kind);
  // So many bytes of it wait no more. Returns what now has to: the note, or nothing.
  std::string gone(std::size_t bytes);

 private:
  std::string take_note();

  std::size_t limit_;
  Note note_;
  std::size_t waiting_ = 0;  // bytes
  std::uint64_t left_out_ = 0;
};

}  // namespace hvdrun
