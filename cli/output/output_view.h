// One place where output is shown, and the way there: a queue that serves the ranks in turn, the
// holder that keeps lines whole, the fold when it was asked for, the formatter, the console. Only
// so much is on its way to the console that a rank which floods does not hold up the others; the
// rest waits in the queue, which is bounded by the ranks' credit.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "cli/options/options.h"
#include "cli/output/fd_writer.h"
#include "cli/output/line_holder.h"
#include "cli/output/output_fold.h"
#include "cli/output/output_formatter.h"
#include "cli/output/output_queue.h"
#include "cli/output/own_lines.h"

namespace hvdrun {

class OutputView {
 public:
  struct Events {
    // So much of the rank's output is on its way; it gets credit for as much again.
    std::function<void(std::uint32_t rank, std::uint32_t bytes)> on_taken;
    std::function<void()> on_idle;
    std::function<void(int error)> on_broken;  // as FdWriter's
  };

  OutputView(boost::asio::io_context& io, int fd, const OutputOptions& options,
             const std::shared_ptr<const RankTable>& table, const std::shared_ptr<HeldBytes>& held,
             Events events);

  // Output of a rank, or the end of one of its streams.
  void push(OutputItem item);
  // Whole lines of hvdrun's own, after all output that has come before them.
  void say(std::string_view lines, OwnLines::Kind kind);
  // As Viewer's.
  void grow() { formatter_.grow(); }
  void begin_epoch(const std::vector<EpochMember>& members) { formatter_.begin_epoch(members); }
  // The very last ones: as FdWriter's end_with.
  void end_with(std::string_view lines) { console_.end_with(lines); }

  // No more output will come, so nothing needs to wait for its like.
  void finish();
  // Somebody wants to leave: from now on a console that takes nothing for a second is given up.
  // What waits for it is dropped then, and all that comes.
  void hurry() { console_.hurry(FdWriter::kPatience); }

  bool idle() const;
  bool is_held_back() const { return console_.waiting() > 0; }
  bool is_terminal() const { return console_.is_terminal(); }

 private:
  void pump();
  void take(OutputItem item);
  void show_piece(const Output& piece);
  void push_own(std::string lines);
  void show_folded(bool all);
  void arm_timer();

  FdWriter console_;
  OutputFormatter formatter_;
  OutputQueue queue_;
  OwnLines own_lines_;
  LineHolder holder_;
  std::optional<OutputFold> fold_;
  boost::asio::steady_timer timer_;
  Events events_;
  LineHolder::TimePoint timer_due_ = LineHolder::TimePoint::max();
  bool finished_ = false;
};

}  // namespace hvdrun
