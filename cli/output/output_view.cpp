#include "cli/output/output_view.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "common/base/limits.h"

namespace hvdrun {
namespace {

// So much may be on its way to the console before the next item is taken.
constexpr std::size_t kConsoleRoom = 64U << 10;
// Room for hvdrun's own lines: as much as a rank may be ahead.
constexpr std::size_t kOwnRoom = limits::kOutputCredit;
// A rank that reads stdin may ask for it. The agent has waited as long before.
constexpr std::chrono::milliseconds kQuestionPause{50};

std::string left_out(std::uint64_t count) {
  return "hvdrun: " + std::to_string(count) + (count == 1 ? " line" : " lines") +
         " of hvdrun's own left out\n";
}

bool is_set(const char* name) {
  const char* const value = std::getenv(name);  // NOLINT(concurrency-mt-unsafe): one thread
  return value != nullptr && *value != '\0';
}

bool wants_color(ColorMode mode, bool terminal) {
  if (mode != ColorMode::automatic) return mode == ColorMode::always;
  const char* const term = std::getenv("TERM");  // NOLINT(concurrency-mt-unsafe): one thread
  return terminal && !is_set("NO_COLOR") && term != nullptr && std::string_view(term) != "dumb";
}

}  // namespace

OutputView::OutputView(boost::asio::io_context& io, int fd, const OutputOptions& options,
                       const std::shared_ptr<const RankTable>& table,
                       const std::shared_ptr<HeldBytes>& held, Events events)
    : console_(
          io, fd, [this] { pump(); }, [this](int error) { events_.on_broken(error); }),
      formatter_(OutputTag(options.tag, options.timestamps,
                           wants_color(options.color, console_.is_terminal()), table)),
      own_lines_(kOwnRoom, left_out),
      holder_(held, [this](const Output& piece) { show_piece(piece); }),
      timer_(io),
      events_(std::move(events)) {
  if (options.stdin_to.who == StdinTo::Who::one)
    holder_.set_patience(options.stdin_to.rank, kQuestionPause);
  // There is no line of another.
  if (table->size() == 1) holder_.set_patience(0, kQuestionPause);
  if (options.fold) fold_.emplace(table->size());
}

void OutputView::say(std::string_view lines, OwnLines::Kind kind) {
  push_own(own_lines_.offer(lines, kind));
  pump();
}

void OutputView::push_own(std::string lines) {
  if (!lines.empty())
    queue_.push({OutputItem::Kind::notice, {0, OutputStream::err, false, std::move(lines)}});
}

void OutputView::push(OutputItem item) {
  queue_.push(std::move(item));
  pump();
}

void OutputView::finish() {
  finished_ = true;
  pump();
}

bool OutputView::idle() const {
  return queue_.empty() && holder_.empty() && console_.waiting() == 0 && (!fold_ || fold_->empty());
}

void OutputView::pump() {
  while (console_.waiting() < kConsoleRoom) {
    const bool all = finished_ && queue_.empty();
    if (!holder_.empty()) {
      // An item that waits behind others may be the rest of the line.
      const auto now = std::chrono::steady_clock::now();
      const auto rank = holder_.due(now);
      if (auto item = rank ? queue_.pop_of(*rank) : std::nullopt) {
        take(std::move(*item));
        continue;
      }
      if (holder_.show_due(now, all)) continue;
    }
    if (fold_) show_folded(all);
    auto item = queue_.pop();
    if (!item) break;
    take(std::move(*item));
  }
  arm_timer();
  if (idle()) events_.on_idle();
}

void OutputView::take(OutputItem item) {
  Output& message = item.message;
  switch (item.kind) {
    case OutputItem::Kind::output: {
      const std::uint32_t rank = message.rank;
      const auto size = static_cast<std::uint32_t>(message.bytes.size());
      const bool is_open = formatter_.is_open(rank, message.stream);
      holder_.add(std::move(message), is_open, std::chrono::steady_clock::now());
      return events_.on_taken(rank, size);
    }
    case OutputItem::Kind::closed:
      holder_.end(message.rank, message.stream);
      if (fold_ && fold_->mid_line(message.rank, message.stream)) show_folded(true);
      return console_.write(formatter_.format_end(message.rank, message.stream));
    case OutputItem::Kind::notice:
      if (fold_) show_folded(true);
      console_.write(formatter_.format_notice(message.bytes));
      return push_own(own_lines_.gone(message.bytes.size()));
  }
}

void OutputView::show_piece(const Output& piece) {
  if (!fold_) return console_.write(formatter_.format(piece, std::chrono::system_clock::now()));
  fold_->add(piece, std::chrono::steady_clock::now());
  show_folded(false);
}

void OutputView::show_folded(bool all) {
  const auto now = std::chrono::system_clock::now();
  FoldedLine line;
  while (fold_->take(std::chrono::steady_clock::now(), all, line)) {
    if (line.partial) {
      console_.write(
          formatter_.format({line.ranks.front(), line.stream, true, std::move(line.line)}, now));
    } else {
      console_.write(formatter_.format_folded(line.ranks, line.stream, line.line, now));
    }
  }
}

void OutputView::arm_timer() {
  // Without room it is the console that says when to go on.
  if (console_.waiting() >= kConsoleRoom) return;
  auto due = LineHolder::TimePoint::max();
  if (fold_ && !fold_->empty()) due = fold_->next_due();
  if (!holder_.empty()) due = std::min(due, holder_.next_due());
  if (due >= timer_due_) return;
  timer_due_ = due;
  timer_.expires_at(due);
  timer_.async_wait([this](const auto& ec) {
    if (ec) return;
    timer_due_ = LineHolder::TimePoint::max();
    pump();
  });
}

}  // namespace hvdrun
