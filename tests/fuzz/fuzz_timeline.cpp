// Batches of a timeline as agents pass them on: what comes of them is a JSON array after each
// write, and phases on a lane are inside each other or apart.
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cli/timeline/timeline_file.h"
#include "cli/timeline/timeline_format.h"

namespace {

using namespace hvdrun;

// A JSON value at the front of the text is taken off it.
void take_value(std::string_view& text);

void take(std::string_view& text, char c) {
  assert(!text.empty() && text.front() == c);
  text.remove_prefix(1);
}

void take_string(std::string_view& text) {
  take(text, '"');
  for (;;) {
    assert(!text.empty());
    const char c = text.front();
    assert(static_cast<unsigned char>(c) >= 0x20);
    text.remove_prefix(1);
    if (c == '"') return;
    if (c != '\\') continue;
    assert(!text.empty());
    const bool unicode = text.front() == 'u';
    assert(unicode || std::string_view("\"\\/bfnrt").find(text.front()) != std::string_view::npos);
    text.remove_prefix(1);
    for (int i = 0; unicode && i < 4; ++i) {
      assert(!text.empty() && std::isxdigit(static_cast<unsigned char>(text.front())) != 0);
      text.remove_prefix(1);
    }
  }
}

void take_value(std::string_view& text) {
  assert(!text.empty());
  if (text.front() == '"') return take_string(text);
  if (text.front() == '{') {
    for (char begin = '{'; text.front() != '}'; begin = ',') {
      take(text, begin);
      take_string(text);
      take(text, ':');
      take_value(text);
      assert(!text.empty());
    }
    return take(text, '}');
  }
  const auto end = text.find_first_of(",}");
  const std::string word(text.substr(0, end));
  char* rest = nullptr;
  std::strtod(word.c_str(), &rest);
  assert(word == "true" || (!word.empty() && *rest == '\0'));
  text.remove_prefix(word.size());
}

void check_file(std::string_view text) {
  take(text, '[');
  for (bool first = true; text.substr(0, 2) != "\n]"; first = false) {
    if (!first) take(text, ',');
    take(text, '\n');
    take_value(text);
  }
  assert(text == kTimelineEnd);
}

std::uint64_t field(std::string_view object, std::string_view name) {
  const auto at = object.find(name);
  assert(at != std::string_view::npos);
  std::uint64_t value = 0;
  // Microseconds with three decimals are nanoseconds without the point.
  for (const char c : object.substr(at + name.size())) {
    if (c == '.') continue;
    if (c < '0' || c > '9') break;
    value = value * 10 + static_cast<std::uint64_t>(c - '0');
  }
  return value;
}

// They come in the order of their ends, an inner one before the outer.
void check_nesting(const TraceEvents& events) {
  std::map<std::uint64_t, std::vector<std::pair<std::uint64_t, std::uint64_t>>> lanes;
  std::size_t begin = 0;
  for (const std::size_t end : events.ends) {
    const std::string_view object = std::string_view(events.text).substr(begin, end - begin);
    begin = end;
    if (object.find(R"("ph":"X")") != 1) continue;
    const std::uint64_t from = field(object, R"("ts":)");
    const std::uint64_t to = from + field(object, R"("dur":)");
    auto& lane = lanes[field(object, R"("tid":)")];
    while (!lane.empty() && lane.back().first >= from) {
      assert(lane.back().second <= to);
      lane.pop_back();
    }
    assert(lane.empty() || lane.back().second <= from);
    lane.emplace_back(from, to);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FrameDecoder decoder;
  decoder.feed({reinterpret_cast<const char*>(data), size});
  TimelineFormat format([](std::uint32_t rank) { return std::to_string(rank); });
  TraceEvents all;
  std::string file(kEmptyTimeline);
  std::uint64_t end = 1;
  const auto append = [&](const TraceEvents& events) {
    for (const TimelinePiece& piece : cut_timeline(end, end == 1, events)) {
      assert(piece.at == end);
      file.replace(end, std::string::npos, piece.bytes);
      end = file.size() - kTimelineEnd.size();
      check_file(file);
    }
    std::size_t begin = 0;
    for (const std::size_t stop : events.ends) {
      all.add(std::string_view(events.text).substr(begin, stop - begin));
      begin = stop;
    }
  };
  std::error_code ec;
  while (const auto frame = decoder.next(ec)) {
    TimelineBatch batch;
    // Small, so that a file is checked soon; a rank is one of the job.
    if (frame->type != TimelineBatch::kType || decode(frame->payload, batch) ||
        batch.rank >= limits::kMaxRanks || batch.bytes.size() > 2000)
      continue;
    // A clock does not come to its end: hvdrun would have to run for centuries.
    batch.clock_add %= std::uint64_t{1} << 62;
    TimelineEvents inside;
    if (!decode(batch.bytes, inside) && inside.begin_ns >> 62 != 0) continue;
    TraceEvents events;
    const bool taken = format.add(batch, events);
    assert(taken || events.ends.empty());
    append(events);
  }
  TraceEvents events;
  format.finish(0, events);
  append(events);
  check_nesting(all);
  return 0;
}
