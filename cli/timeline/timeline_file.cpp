#include "cli/timeline/timeline_file.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/text/user_errors.h"

namespace hvdrun {
namespace {

constexpr std::uint64_t kPage = 4096;

std::system_error system_fault() { return {errno, std::system_category()}; }

// True where the file was one of ours, or has nothing in it.
bool is_timeline(int file) {
  char begin[kEmptyTimeline.size()];
  const ssize_t got = ::pread(file, begin, sizeof begin, 0);
  // An element follows "[\n", or the end of the array.
  constexpr std::string_view kBegins[] = {kEmptyTimeline, "[\n{\""};
  return got == 0 || (got == static_cast<ssize_t>(sizeof begin) &&
                      std::any_of(std::begin(kBegins), std::end(kBegins), [&](auto text) {
                        return text == std::string_view(begin, sizeof begin);
                      }));
}

}  // namespace

std::vector<TimelinePiece> cut_timeline(std::uint64_t end, bool is_first,
                                        const TraceEvents& events) {
  std::vector<TimelinePiece> pieces;
  std::uint64_t page = 0;  // where that of the last piece ends
  std::size_t begin = 0;
  for (const std::size_t stop : events.ends) {
    const std::string_view event = std::string_view(events.text).substr(begin, stop - begin);
    begin = stop;
    const std::uint64_t size = (is_first ? 1 : 2) + event.size();
    const bool fits = !pieces.empty() && end + size + kTimelineEnd.size() <= page;
    if (!fits) {
      if (!pieces.empty()) pieces.back().bytes += kTimelineEnd;
      pieces.push_back({end, {}});
      page = (end / kPage + 1) * kPage;
    }
    pieces.back().bytes += is_first ? "\n" : ",\n";
    pieces.back().bytes += event;
    is_first = false;
    end += size;
  }
  if (!pieces.empty()) pieces.back().bytes += kTimelineEnd;
  return pieces;
}

TimelineFile::TimelineFile(const std::string& path, Existing existing) {
  if (existing == Existing::only_ours && !path.ends_with(".json"))
    throw UsageError("the name of a timeline that the program starts must end in .json");
  // A pipe without a reader must not be waited for.
  const int access = existing == Existing::overwrite ? O_WRONLY : O_RDWR;
  file_.reset(::open(path.c_str(), access | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666));
  struct stat status {};
  if (!file_ || ::fstat(file_.get(), &status) != 0) throw system_fault();
  if (!S_ISREG(status.st_mode)) throw UsageError("not a regular file");
  // Network file systems may have no locks; that is no reason not to write there.
  if (::flock(file_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    throw UsageError("another hvdrun is writing to it; name another file");
  if (existing == Existing::only_ours && !is_timeline(file_.get()))
    throw UsageError("the file exists and is no timeline; it stays as it is");
  if (::ftruncate(file_.get(), 0) != 0) throw system_fault();
  if (const std::error_code ec = write({0, std::string(kEmptyTimeline)}))
    throw std::system_error(ec);
}

std::error_code TimelineFile::append(const TraceEvents& events) {
  if (!file_) return {};
  for (const TimelinePiece& piece : cut_timeline(end_, is_first_, events)) {
    if (const std::error_code ec = write(piece)) {
      // As before: first what makes the rest of the file wrong, then that rest.
      const auto size = static_cast<off_t>(end_ + kTimelineEnd.size());
      if (!write({end_, std::string(kTimelineEnd)})) [[maybe_unused]]
        const int cut = ::ftruncate(file_.get(), size);
      file_.reset();
      return ec;
    }
    end_ = piece.at + piece.bytes.size() - kTimelineEnd.size();
    is_first_ = false;
  }
  return {};
}

std::error_code TimelineFile::write(const TimelinePiece& piece) {
  std::string_view rest = piece.bytes;
  for (auto at = static_cast<off_t>(piece.at); !rest.empty();) {
    const ssize_t sent = ::pwrite(file_.get(), rest.data(), rest.size(), at);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0)
      return sent < 0 ? system_fault().code() : std::error_code(ENOSPC, std::system_category());
    rest.remove_prefix(static_cast<std::size_t>(sent));
    at += sent;
  }
  return {};
}

}  // namespace hvdrun
