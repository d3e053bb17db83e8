// Shows the output of all ranks, keeps it in files, and passes stdin on: one connection from every
// agent, a view for stdout and one for stderr. A file gets what a rank wrote as soon as it comes;
// the rank gets credit for more once it is on its way to the console.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "cli/options/options.h"
#include "cli/output/output_files.h"
#include "cli/output/output_view.h"
#include "cli/output/rank_input.h"
#include "cli/output/synced_files.h"
#include "common/base/unique_fd.h"
#include "common/net/tls_listener.h"
#include "common/wire/frame_channel.h"
#include "common/wire/messages.h"

namespace hvdrun {

class Viewer {
 public:
  // `files`: none without --output-filename. `on_broken`: nobody reads stdout or stderr any more.
  // Throws UsageError for a tag that cannot be.
  Viewer(boost::asio::io_context& io, std::string job_id, const OutputOptions& options,
         RankTable table, std::unique_ptr<OutputFiles> files, std::function<void(int)> on_broken);

  // An agent's connection is expected, until it has come and ended.
  void expect(std::uint32_t host) { hosts_[host]; }
  void forget(std::uint32_t host);
  // Another agent's, of a host that is opened again; the last one's has said enough.
  void expect_again(std::uint32_t host);
  bool is_connected(std::uint32_t host) const;
  // Nobody is left on the host who could still connect; a connection that is there ends by itself.
  void forget_unless_connected(std::uint32_t host);
  // Neither is its connection waited for: the host does not answer.
  void give_up(std::uint32_t host);
  // It came as an inherited socket, or will come over TCP with TLS.
  void attach(std::uint32_t host, UniqueFd fd);
  void listen(UniqueFd listener, const std::string& secret);

  // Every expected connection has ended and everything is written.
  bool all_shown() const;
  // A console that takes nothing holds output back.
  bool is_held_back() const { return out_->is_held_back() || err_->is_held_back(); }
  // Frames that have come, from all agents.
  std::uint64_t heard() const { return heard_; }
  // Called whenever all_shown() may have become true.
  std::function<void()> on_all_closed;

  // Somebody wants to leave: from now on a console that takes nothing for a second is given up.
  // Files get everything all the same. False when this was said before.
  bool hurry();

  // The job has more hosts or slots: those of `table`, which begins as the one that there was.
  void grow(const RankTable& table);
  // It may come to that.
  void may_grow() { may_grow_ = true; }
  // From now on slots have other ranks; a slot that is not among these keeps the one it had.
  void begin_epoch(const std::vector<EpochMember>& members);

  // Files of ranks on other hosts are kept there.
  void sync(std::unique_ptr<SyncedFiles> files);

  // Called with everything that a rank wrote, before it is shown.
  std::function<void(const Output&)> on_output;

  // Called with what a rank's timeline says.
  std::function<void(const TimelineBatch&)> on_timeline_batch;
  std::function<void(const TimelineControl&)> on_timeline_control;

  // Lines of hvdrun's own, on stderr, which stay together.
  using Kind = OwnLines::Kind;
  void say(const std::string& text, Kind kind = Kind::news) { say(std::vector{text}, kind); }
  void say(const std::vector<std::string>& lines, Kind kind = Kind::news);
  // Lines that have their "hvdrun: " or "hvd-agent: " already.
  void pass_on(const std::string& line) { err_->say(line + "\n", Kind::news); }
  // The very last one, instead of all that waits for stderr; only if it is taken at once.
  void end_with(const std::string& text) { err_->end_with("hvdrun: " + text + "\n"); }
  bool stderr_is_terminal() const { return err_->is_terminal(); }

 private:
  using Channel = std::shared_ptr<FrameChannel>;

  // `host`: the one that this connection must be for; none when its hello tells.
  void greet(const Channel& channel, std::optional<std::uint32_t> host);
  void on_frame(std::uint32_t host, const Frame& frame);
  // The word on a new slot comes another way, and may be slower than what its process writes.
  bool is_early(const Frame& frame) const;
  OutputView& view_of(OutputStream stream) { return stream == OutputStream::out ? *out_ : *err_; }
  void keep(const Output& message);
  bool keep_file(std::uint32_t host, const Frame& frame);
  template <class M>
  void send(std::uint32_t rank, const M& message);
  void on_taken(std::uint32_t rank, std::uint32_t bytes);
  void broken(bool out, int error);
  void notify();

  boost::asio::io_context& io_;
  std::string job_id_;
  std::shared_ptr<RankTable> table_;
  std::unique_ptr<OutputFiles> files_;
  std::uint32_t files_failed_ = 0;
  std::unique_ptr<SyncedFiles> synced_;  // with --sync-dir
  std::uint64_t heard_ = 0;
  bool in_hurry_ = false;
  bool may_grow_ = false;
  std::function<void(int)> on_broken_;
  // One view for both when they are the same terminal or file: two would tear each other's lines.
  std::shared_ptr<OutputView> out_;
  std::shared_ptr<OutputView> err_;
  std::unique_ptr<RankInput> input_;
  std::optional<TlsListener> listener_;
  std::map<std::uint32_t, Channel> hosts_;              // expected; no channel before its hello
  std::vector<std::pair<std::uint32_t, Frame>> early_;  // of slots to come, by host
};

}  // namespace hvdrun
