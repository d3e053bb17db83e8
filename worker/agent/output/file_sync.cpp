#include "worker/agent/output/file_sync.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <limits>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace hvdrun {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds kTurn{100};
constexpr std::chrono::milliseconds kPause{1'000};  // between two looks
// A look at many files takes its time from the agent: at most one part in so many.
constexpr int kLookShare = 50;
// At the end: a file that somebody else still changes is not waited for without end.
constexpr int kLastLooks = 3;

}  // namespace

std::string make_sync_folder(const std::string& parent, const std::string& job_id,
                             std::uint32_t host) {
  const std::string path = (parent.starts_with('/') ? parent : "/tmp") + "/hvdrun-sync-" + job_id +
                           "-" + std::to_string(host);
  constexpr mode_t kOwn = 0700;
  constexpr mode_t kOthers = 077;
  int error = ::mkdir(path.c_str(), kOwn) == 0 ? 0 : errno;
  struct stat info {};
  if (error == EEXIST && ::lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) &&
      info.st_uid == ::geteuid() && (info.st_mode & kOthers) == 0)
    error = 0;
  if (error != 0) throw std::system_error(error, std::system_category(), path);
  return path;
}

FileSync::FileSync(boost::asio::io_context& io, std::string folder, Say say)
    : timer_(io), folder_(std::move(folder)), say_(std::move(say)), scan_(folder_) {}

FileSync::~FileSync() {
  if (done_) return;
  scan_.look(Clock::now(), true);
  remove_if_brought();
}

void FileSync::set_viewer(std::shared_ptr<FrameChannel> viewer) {
  viewer_ = std::move(viewer);
  file_.reset();
  if (!viewer_) {
    if (on_done_) leave();
    return;
  }
  viewer_->send(FileFolder{folder_});
  arm(kPause);
}

bool FileSync::take(const Frame& frame) {
  FileCredit credit;
  FileKept answer;
  if (frame.type == MessageType::file_credit && !decode(frame.payload, credit)) {
    window_ = std::min<std::size_t>(limits::kFileWindow, window_ + credit.bytes);
    move();
    return true;
  }
  if (frame.type != MessageType::file_kept || decode(frame.payload, answer)) return false;
  if (!file_ || !is_sent_) return true;
  answer.kept ? scan_.brought(*file_) : scan_.failed(*file_);
  file_.reset();
  move();
  return true;
}

void FileSync::finish(std::function<void()> done) {
  const bool is_first = !on_done_;
  on_done_ = std::move(done);
  if (!is_first || done_) return;
  if (!viewer_) return leave();
  allowed_ = std::numeric_limits<std::size_t>::max();
  move();
}

void FileSync::arm(Clock::duration within) {
  timer_.expires_after(within);
  timer_.async_wait([this](const auto& ec) {
    if (!ec) on_timer();
  });
}

void FileSync::on_timer() {
  if (!viewer_ || on_done_) return;
  allowed_ = limits::kFileRate / (1s / kTurn);
  if (!file_ && Clock::now() >= next_look_) look();
  move();
  if (!on_done_) arm(file_ ? kTurn : kPause);
}

void FileSync::look() {
  const auto begin = Clock::now();
  scan_.look(begin, on_done_ != nullptr);
  const auto end = Clock::now();
  next_look_ = end + std::max<Clock::duration>(kPause, (end - begin) * kLookShare);
  for (const std::string& remark : scan_.take_remarks()) say_(remark);
}

void FileSync::move() {
  while (viewer_ && !done_) {
    if (!file_ && !begin_next()) {
      if (!on_done_) return;
      if (last_looks_ == kLastLooks || (last_looks_ > 0 && scan_.left() == 0)) return leave();
      ++last_looks_;
      look();
      continue;
    }
    if (is_sent_) return;
    send_data();
    if (is_whole_ && at_ < file_->stamp.size) return;  // until there is room, or the next turn
    end_file();
  }
}

bool FileSync::begin_next() {
  file_ = scan_.next(Clock::now());
  for (const std::string& remark : scan_.take_remarks()) say_(remark);
  if (!file_) return false;
  at_ = 0;
  is_whole_ = true;
  is_sent_ = false;
  viewer_->send(FileBegin{file_->path, file_->stamp.size, file_->mode, file_->stamp.changed_ns});
  return true;
}

void FileSync::send_data() {
  std::array<char, limits::kFileChunk> buffer;
  while (is_whole_ && at_ < file_->stamp.size) {
    const auto most = static_cast<std::size_t>(
        std::min<std::uint64_t>({buffer.size(), window_, allowed_, file_->stamp.size - at_}));
    if (most == 0) return;
    const ssize_t got = ::pread(file_->file.get(), buffer.data(), most, static_cast<off_t>(at_));
    if (got <= 0) {
      is_whole_ = false;
      return;
    }
    const auto size = static_cast<std::size_t>(got);
    viewer_->send(FileData{{buffer.data(), size}});
    at_ += size;
    window_ -= size;
    if (!on_done_) allowed_ -= size;
  }
}

void FileSync::end_file() {
  is_whole_ = is_whole_ && stamp_of(file_->file.get()) == file_->stamp;
  viewer_->send(FileEnd{is_whole_});
  is_sent_ = is_whole_;
  if (!is_whole_) file_.reset();
}

void FileSync::leave() {
  done_ = true;
  timer_.cancel();
  if (!viewer_) scan_.look(Clock::now(), true);
  if (viewer_) viewer_->send(FileFolder{folder_, true, scan_.left()});
  remove_if_brought();
  on_done_();
}

void FileSync::remove_if_brought() {
  std::error_code ignored;
  if (scan_.left() == 0) std::filesystem::remove_all(folder_, ignored);
}

}  // namespace hvdrun
