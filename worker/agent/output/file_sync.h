// Brings the files that ranks of this host write below its folder of --sync-dir to the viewer, over
// the output connection. One file at a time, at most limits::kFileWindow bytes ahead of the viewer
// and, while ranks run, limits::kFileRate bytes a second. A file that has changed on its way comes
// again. The folder goes once all that is in it has been brought; else it stays, for nothing that a
// rank has finished is to be lost.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "common/base/limits.h"
#include "common/base/unique_fd.h"
#include "common/wire/frame_channel.h"
#include "common/wire/messages.h"
#include "worker/agent/output/folder_scan.h"

namespace hvdrun {

// A folder for the user alone. One that an earlier agent of this host and job has left is taken
// over, with what is in it; not while that agent is there.
struct SyncFolder {
  std::string path;
  UniqueFd lock;  // held for as long as it is used
};
// In the first of these folders where it can be made. Throws std::system_error.
SyncFolder make_sync_folder(const std::vector<std::string>& parents, const std::string& job_id,
                            std::uint32_t host);

class FileSync {
 public:
  FileSync(boost::asio::io_context& io, SyncFolder folder);
  ~FileSync();
  FileSync(const FileSync&) = delete;
  FileSync& operator=(const FileSync&) = delete;

  const std::string& folder() const { return folder_.path; }
  // None: it is gone, and nothing is brought any more.
  void set_viewer(std::shared_ptr<FrameChannel> viewer);
  // False: the frame was none of these.
  bool take(const Frame& frame);
  // Nobody writes any more: brings what is left, then calls `done`. At once without a viewer.
  void finish(std::function<void()> done);
  bool is_done() const { return done_; }

 private:
  using Clock = std::chrono::steady_clock;

  void arm(Clock::duration within);
  void on_timer();
  void begin_look();
  void go_on_looking();
  void tell_remarks();
  void move();
  void begin_last_look();
  bool begin_next();
  void send_data();
  void end_file();
  void leave();

  boost::asio::steady_timer timer_;
  SyncFolder folder_;
  std::shared_ptr<FrameChannel> viewer_;
  FolderScan scan_;
  bool is_looking_ = false;
  Clock::duration looked_for_{};  // of the look under way, the time that it has taken
  Clock::time_point next_look_;
  std::optional<ReadyFile> file_;  // under way
  std::uint64_t at_ = 0;           // bytes of it that are sent
  bool is_whole_ = true;
  bool is_sent_ = false;  // whole, and not answered yet
  std::size_t window_ = limits::kFileWindow;
  std::size_t allowed_ = 0;        // bytes until the next turn
  std::function<void()> on_done_;  // since finish()
  int last_looks_ = 0;
  bool done_ = false;
};

}  // namespace hvdrun
