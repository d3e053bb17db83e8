#include "worker/agent/ranks/held_pipes.h"

#include <algorithm>
#include <charconv>
#include <fcntl.h>
#include <memory>
#include <set>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>

#include <dirent.h>

#include "common/base/rank_ranges.h"
#include "worker/agent/ranks/joiner.h"
#include "worker/agent/ranks/process_probe.h"

namespace hvdrun {
namespace {

constexpr std::size_t kMaxHolders = 4;  // named
constexpr std::size_t kMaxRuns = 16;    // of ranks in a line

struct CloseFolder {
  void operator()(DIR* folder) const { ::closedir(folder); }
};
using Folder = std::unique_ptr<DIR, CloseFolder>;

// The next entry whose name is a number; -1 at the end.
long next_number(DIR* folder) {
  while (const dirent* const entry = ::readdir(folder)) {  // NOLINT(concurrency-mt-unsafe): own DIR
    const std::string_view name = entry->d_name;
    long number = -1;
    const auto [end, ec] = std::from_chars(name.data(), name.data() + name.size(), number);
    if (ec == std::errc() && end == name.data() + name.size()) return number;
  }
  return -1;
}

// "pipe:[4711]"; 0: something else.
ino_t pipe_at(const std::string& path) {
  char text[64];
  const ssize_t size = ::readlink(path.c_str(), text, sizeof text);
  std::string_view link(text, static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  constexpr std::string_view kPipe = "pipe:[";
  if (!link.starts_with(kPipe)) return 0;
  link.remove_prefix(kPipe.size());
  ino_t inode = 0;
  std::from_chars(link.data(), link.data() + link.size(), inode);
  return inode;
}

bool is_for_writing(const std::string& info) {
  constexpr std::string_view kFlags = "flags:";
  const auto at = info.find(kFlags);
  if (at == std::string::npos) return false;
  const auto digits = std::min(info.find_first_not_of(" \t", at + kFlags.size()), info.size());
  unsigned long flags = 0;
  std::from_chars(info.data() + digits, info.data() + info.size(), flags, 8);
  return (flags & O_ACCMODE) != O_RDONLY;
}

std::string name_ranks(const std::set<std::uint32_t>& ranks) {
  return (ranks.size() == 1 ? "rank " : "ranks ") +
         rank_ranges({ranks.begin(), ranks.end()}, kMaxRuns);
}

}  // namespace

void HeldPipes::add(std::uint32_t rank, OutputStream stream, int pipe) {
  struct stat info {};
  if (::fstat(pipe, &info) == 0) pipes_.push_back({rank, stream, info.st_ino});
}

std::vector<std::size_t> HeldPipes::held_by(pid_t pid, Deadline deadline) const {
  std::set<std::size_t> found;
  const std::string process = "/proc/" + std::to_string(pid);
  const Folder folder(::opendir((process + "/fd").c_str()));
  if (!folder) return {};
  for (long fd = next_number(folder.get()); fd >= 0 && std::chrono::steady_clock::now() < deadline;
       fd = next_number(folder.get())) {
    const std::string number = std::to_string(fd);
    const ino_t inode = pipe_at(std::string(process).append("/fd/").append(number));
    const auto pipe = std::find_if(pipes_.begin(), pipes_.end(),
                                   [inode](const Pipe& p) { return p.inode == inode; });
    if (inode != 0 && pipe != pipes_.end() &&
        is_for_writing(
            read_proc_file(std::string(process).append("/fdinfo/").append(number)).value_or("")))
      found.insert(static_cast<std::size_t>(pipe - pipes_.begin()));
  }
  return {found.begin(), found.end()};
}

std::string HeldPipes::name(const std::vector<std::size_t>& pipes) const {
  std::set<std::uint32_t> out;
  std::set<std::uint32_t> err;
  for (const std::size_t pipe : pipes)
    (pipes_[pipe].stream == OutputStream::out ? out : err).insert(pipes_[pipe].rank);
  if (out == err) return "stdout and stderr of " + name_ranks(out);
  std::string text = out.empty() ? "" : "stdout of " + name_ranks(out);
  if (!err.empty()) text += (text.empty() ? "" : " and ") + ("stderr of " + name_ranks(err));
  return text;
}

std::vector<std::string> HeldPipes::describe(std::chrono::milliseconds limit) const {
  if (pipes_.empty()) return {};
  const auto deadline = std::chrono::steady_clock::now() + limit;
  // The loss stands first in the line: a long line is cut on its way.
  const auto say = [this](const std::vector<std::size_t>& pipes, const std::string& holder) {
    return "the rest of " + name(pipes) + " is not shown: " + holder + " holds it open";
  };
  std::vector<std::string> lines;
  std::vector<bool> is_known(pipes_.size(), false);
  std::size_t unnamed = 0;
  const Folder folder(::opendir("/proc"));
  for (long pid = folder ? next_number(folder.get()) : -1;
       pid > 0 && std::chrono::steady_clock::now() < deadline; pid = next_number(folder.get())) {
    const std::vector<std::size_t> held = held_by(static_cast<pid_t>(pid), deadline);
    if (held.empty()) continue;
    for (const std::size_t pipe : held) is_known[pipe] = true;
    if (lines.size() == kMaxHolders) {
      ++unnamed;
      continue;
    }
    lines.push_back(say(held, process_text(static_cast<pid_t>(pid)) + ", not of this job,"));
  }
  if (unnamed > 0) lines.push_back(std::to_string(unnamed) + " more processes hold outputs open");
  std::vector<std::size_t> unknown;
  for (std::size_t pipe = 0; pipe < pipes_.size(); ++pipe)
    if (!is_known[pipe]) unknown.push_back(pipe);
  if (!unknown.empty())
    lines.push_back(say(unknown, "a process that cannot be seen from here (another user's, say)"));
  return lines;
}

}  // namespace hvdrun
