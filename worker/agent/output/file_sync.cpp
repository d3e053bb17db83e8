#include "worker/agent/output/file_sync.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <limits>
#include <sys/file.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace hvdrun {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds kTurn{100};
constexpr std::chrono::milliseconds kPause{1'000};  // between two looks
// A look takes its time from the agent: so much at once, and at most one part in so many.
constexpr std::chrono::milliseconds kLookSlice{10};
constexpr int kLookShare = 50;
// At the end: a file that somebody else still changes is not waited for without end.
constexpr int kLastLooks = 3;
constexpr int kFolders = 8;  // of one host, where its earlier agents are there yet

std::error_code last_error() { return {errno, std::system_category()}; }

// Ours, and nobody else's. Its mode may have been changed by a rank.
std::error_code open_sync_folder(const std::string& path, UniqueFd& lock) {
  constexpr mode_t kOwn = 0700;
  if (::mkdir(path.c_str(), kOwn) != 0 && errno != EEXIST) return last_error();
  lock.reset(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat info {};
  if (!lock || ::fstat(lock.get(), &info) != 0) return last_error();
  if (info.st_uid != ::geteuid()) return {EPERM, std::system_category()};
  if (::fchmod(lock.get(), kOwn) != 0) return last_error();
  // Network file systems may have no locks; that is no reason not to write there.
  if (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) return last_error();
  return {};
}

}  // namespace

SyncFolder make_sync_folder(const std::vector<std::string>& parents, const std::string& job_id,
                            std::uint32_t host) {
  std::error_code ec;
  for (const std::string& parent : parents) {
    std::string path = parent;
    path.append("/hvdrun-sync-").append(job_id).append("-").append(std::to_string(host));
    for (int nth = 1; nth <= kFolders; ++nth) {
      SyncFolder folder{nth == 1 ? path : path + "." + std::to_string(nth), {}};
      ec = open_sync_folder(folder.path, folder.lock);
      if (!ec) return folder;
      if (ec.value() != EWOULDBLOCK) break;
    }
  }
  throw std::system_error(ec, "a folder for files");
}

FileSync::FileSync(boost::asio::io_context& io, SyncFolder folder)
    : timer_(io), folder_(std::move(folder)), scan_(folder_.path) {}

FileSync::~FileSync() {
  if (!done_) scan_.remove();
}

void FileSync::set_viewer(std::shared_ptr<FrameChannel> viewer) {
  viewer_ = std::move(viewer);
  file_.reset();
  if (!viewer_) {
    if (on_done_) leave();
    return;
  }
  viewer_->send(FileFolder{folder_.path});
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
  // One that was under way has not seen everything.
  is_looking_ = false;
  move();
}

void FileSync::arm(Clock::duration within) {
  timer_.expires_after(within);
  timer_.async_wait([this](const auto& ec) {
    if (!ec) on_timer();
  });
}

void FileSync::on_timer() {
  if (!viewer_ || done_) return;
  if (!on_done_) allowed_ = limits::kFileRate / (1s / kTurn);
  if (!is_looking_ && !on_done_ && !file_ && Clock::now() >= next_look_) begin_look();
  if (is_looking_) return go_on_looking();
  move();
  if (!on_done_ && !is_looking_) arm(file_ ? kTurn : kPause);
}

void FileSync::begin_look() {
  is_looking_ = true;
  looked_for_ = {};
  scan_.begin_look(Clock::now(), on_done_ != nullptr);
}

void FileSync::go_on_looking() {
  const auto begin = Clock::now();
  const bool has_ended = scan_.look_on(begin + kLookSlice);
  const auto end = Clock::now();
  looked_for_ += end - begin;
  // The agent's other work comes in between.
  if (!has_ended) return arm(kLookSlice);
  is_looking_ = false;
  next_look_ = end + std::max<Clock::duration>(kPause, looked_for_ * kLookShare);
  tell_remarks();
  move();
  if (!on_done_ && !is_looking_) arm(file_ ? kTurn : kPause);
}

void FileSync::tell_remarks() {
  for (const std::string& text : scan_.take_remarks()) viewer_->send(FileRemark{text});
}

void FileSync::move() {
  while (viewer_ && !done_ && !is_looking_) {
    if (!file_ && !begin_next()) {
      if (!on_done_) return;
      if (last_looks_ == kLastLooks || (last_looks_ > 0 && scan_.left() == 0)) return leave();
      return begin_last_look();
    }
    if (is_sent_) return;
    send_data();
    if (is_whole_ && at_ < file_->stamp.size) return;  // until there is room, or the next turn
    end_file();
  }
}

void FileSync::begin_last_look() {
  ++last_looks_;
  begin_look();
  arm({});
}

bool FileSync::begin_next() {
  file_ = scan_.next(Clock::now());
  tell_remarks();
  if (!file_) return false;
  at_ = 0;
  is_whole_ = true;
  is_sent_ = false;
  viewer_->send(FileBegin{file_->path, file_->stamp.size, file_->mode, file_->stamp.changed_ns});
  return true;
}

void FileSync::send_data() {
  std::array<char, limits::kFileChunk> buffer;
  while (at_ < file_->stamp.size) {
    const auto most = static_cast<std::size_t>(
        std::min<std::uint64_t>({buffer.size(), window_, allowed_, file_->stamp.size - at_}));
    if (most == 0) return;
    const ssize_t got = ::pread(file_->file.get(), buffer.data(), most, static_cast<off_t>(at_));
    is_whole_ = got > 0 && stamp_of(file_->file.get()) == file_->stamp;
    if (!is_whole_) return;
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
  if (viewer_) viewer_->send(FileFolder{folder_.path, true, scan_.left()});
  scan_.remove();
  on_done_();
}

}  // namespace hvdrun
