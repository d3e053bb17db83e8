#include "cli/output/line_holder.h"

#include <algorithm>
#include <string>
#include <string_view>

#include <string.h>

namespace hvdrun {
namespace {

// Pieces up to this size are put together, so that a line which comes byte by byte costs no message
// for each of them.
constexpr std::size_t kSmallPiece = 16U << 10;
// A long line comes in pieces of so much, a block of stdio at least; a row of dots does not.
constexpr std::size_t kBlock = 4U << 10;

std::size_t memory_of(const Output& piece) { return sizeof(Output) + piece.bytes.capacity(); }

std::size_t behind_last(std::string_view bytes, char end) {
  const void* const at = ::memrchr(bytes.data(), end, bytes.size());
  return at == nullptr ? 0
                       : static_cast<std::size_t>(static_cast<const char*>(at) - bytes.data()) + 1;
}

// Behind the last line end; 0: there is none.
std::size_t end_of_lines(std::string_view bytes) {
  if (bytes.back() == '\n' || bytes.back() == '\r') return bytes.size();
  const std::size_t newline = behind_last(bytes, '\n');
  return newline + behind_last(bytes.substr(newline), '\r');
}

}  // namespace

LineHolder::LineHolder(std::shared_ptr<HeldBytes> held, std::function<void(const Output&)> show)
    : held_(std::move(held)), show_(std::move(show)) {
  held_->holders.push_back(this);
}

LineHolder::~LineHolder() {
  for (auto& [source, line] : lines_) count(line, 0);
  std::erase(held_->holders, this);
}

void LineHolder::add(Output message, bool is_open, TimePoint now) {
  if (message.bytes.empty()) return;
  const std::size_t whole = is_open ? message.bytes.size() : end_of_lines(message.bytes);
  if (whole > 0 && !lines_.empty()) end(message.rank, message.stream);
  if (whole == message.bytes.size()) return show_(message);
  if (whole > 0) {
    Output rest{message.rank, message.stream, true, message.bytes.substr(whole)};
    message.bytes.resize(whole);
    message.partial = false;
    show_(message);
    message = std::move(rest);
  }
  hold(std::move(message), now);
}

std::chrono::milliseconds LineHolder::patience_of(std::uint32_t rank) const {
  const auto own = patience_.find(rank);
  return own == patience_.end() ? kPatience : own->second;
}

void LineHolder::hold(Output message, TimePoint now) {
  const Source source{message.rank, message.stream};
  const auto [at, is_new] = lines_.try_emplace(source);
  Line& line = at->second;
  if (is_new || (line.due <= now && message.bytes.size() >= kBlock)) {
    due_.erase({line.due, source});
    line.due = now + patience_of(message.rank);
    due_.emplace(line.due, source);
  }
  line.bytes += message.bytes.size();
  std::size_t memory = line.memory;
  if (!line.pieces.empty() &&
      line.pieces.back().bytes.size() + message.bytes.size() <= kSmallPiece) {
    memory -= memory_of(line.pieces.back());
    line.pieces.back().bytes += message.bytes;
  } else {
    line.pieces.push_back(std::move(message));
  }
  count(line, memory + memory_of(line.pieces.back()));
  if (line.bytes >= kMaxLine) release(at);
  if (held_->used > held_->limit) make_room(*held_);
}

void LineHolder::end(std::uint32_t rank, OutputStream stream) {
  const auto line = lines_.find({rank, stream});
  if (line != lines_.end()) release(line);
}

std::optional<std::uint32_t> LineHolder::due(TimePoint now) const {
  if (due_.empty() || due_.begin()->first > now) return std::nullopt;
  return due_.begin()->second.first;
}

bool LineHolder::show_due(TimePoint now, bool all) {
  if (due_.empty() || (!all && due_.begin()->first > now)) return false;
  release(lines_.find(due_.begin()->second));
  return true;
}

void LineHolder::release(Lines::iterator line) {
  const std::vector<Output> pieces = std::move(line->second.pieces);
  due_.erase({line->second.due, line->first});
  count(line->second, 0);
  lines_.erase(line);
  for (const Output& piece : pieces) show_(piece);
}

// The longest go first, and an eighth more than has to. So the next piece of any of them does not
// look for the longest again.
void LineHolder::make_room(HeldBytes& held) {
  std::vector<std::pair<LineHolder*, Lines::iterator>> longest;
  for (LineHolder* const holder : held.holders)
    for (auto line = holder->lines_.begin(); line != holder->lines_.end(); ++line)
      longest.emplace_back(holder, line);
  std::stable_sort(longest.begin(), longest.end(), [](const auto& a, const auto& b) {
    return a.second->second.bytes > b.second->second.bytes;
  });
  for (const auto& [holder, line] : longest) {
    if (held.used <= held.limit - held.limit / 8) return;
    holder->release(line);
  }
}

void LineHolder::count(Line& line, std::size_t memory) {
  held_->used += memory - line.memory;
  line.memory = memory;
}

}  // namespace hvdrun
