#include "worker/agent/stalls/process_picture.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/limits.h"
#include "common/base/printable.h"
#include "common/process/process_words.h"
#include "worker/agent/ranks/process_probe.h"

namespace hvdrun {
namespace {

struct CallRow {
  long number;
  const char* name;
  bool takes_descriptor;  // as its first argument
};

// System calls in which a process that makes no progress is found.
constexpr auto kCalls = std::to_array<CallRow>({
    {SYS_read, "read", true},
    {SYS_write, "write", true},
    {SYS_pread64, "pread", true},
    {SYS_pwrite64, "pwrite", true},
    {SYS_readv, "readv", true},
    {SYS_writev, "writev", true},
    {SYS_recvfrom, "recv", true},
    {SYS_recvmsg, "recvmsg", true},
    {SYS_sendto, "send", true},
    {SYS_sendmsg, "sendmsg", true},
    {SYS_connect, "connect", true},
    {SYS_accept, "accept", true},
    {SYS_accept4, "accept", true},
    {SYS_ioctl, "ioctl", true},
    {SYS_flock, "flock", true},
    {SYS_fcntl, "fcntl", true},
    {SYS_fsync, "fsync", true},
    {SYS_fdatasync, "fdatasync", true},
    {SYS_fallocate, "fallocate", true},
    {SYS_openat, "open", false},
    {SYS_ppoll, "poll", false},
    {SYS_pselect6, "select", false},
    {SYS_epoll_pwait, "epoll_wait", false},
    {SYS_futex, "futex", false},
    {SYS_nanosleep, "sleep", false},
    {SYS_clock_nanosleep, "sleep", false},
    {SYS_wait4, "wait", false},
    {SYS_waitid, "wait", false},
    {SYS_munmap, "munmap", false},
    {SYS_rt_sigsuspend, "sigsuspend", false},
    {SYS_rt_sigtimedwait, "sigwait", false},
#ifdef SYS_poll  // what newer architectures have not
    {SYS_open, "open", false},
    {SYS_poll, "poll", false},
    {SYS_select, "select", false},
    {SYS_epoll_wait, "epoll_wait", false},
    {SYS_pause, "pause", false},
#endif
});

std::string cut(std::string text, std::size_t limit) {
  if (text.size() > limit) text.resize(limit);
  return text;
}

std::string link_text(const std::string& path) {
  std::array<char, limits::kMaxProcessText / 2> buffer{};
  const ssize_t size = ::readlink(path.c_str(), buffer.data(), buffer.size());
  return size > 0 ? std::string(buffer.data(), static_cast<std::size_t>(size)) : "";
}

// The word that ends at the next blank or line end, and `text` is what follows.
std::string_view next_word(std::string_view& text) {
  const auto end = std::min(text.find_first_of(" \n"), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return word;
}

}  // namespace

std::string stack_names(std::string_view text) {
  std::string names;
  while (!text.empty()) {
    // [<0>] futex_wait+0x1a/0x30 [module]
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.starts_with("[<")) next_word(line);
    const std::string_view name = line.substr(0, line.find_first_of("+ "));
    if (name.empty()) continue;
    constexpr std::string_view kCalledBy = " < ";
    if (names.size() + kCalledBy.size() + name.size() > limits::kMaxKernelStack) break;
    if (!names.empty()) names += kCalledBy;
    names += name;
  }
  return names;
}

std::string system_call_name(std::string_view text,
                             const std::function<std::string(std::uint64_t fd)>& file_of) {
  // 0 0x3 0x7ffd... and so on; "running"; -1 and two addresses when it waits outside a call.
  const std::string_view word = next_word(text);
  long number = -1;
  const auto [end, ec] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (ec != std::errc() || end != word.data() + word.size() || number < 0) return "";
  const auto* const row = std::find_if(kCalls.begin(), kCalls.end(),
                                       [number](const CallRow& r) { return r.number == number; });
  if (row == kCalls.end()) return std::to_string(number);
  if (!row->takes_descriptor) return row->name;
  std::string_view argument = next_word(text);
  if (argument.starts_with("0x")) argument.remove_prefix(2);
  std::uint64_t fd = 0;
  if (std::from_chars(argument.data(), argument.data() + argument.size(), fd, 16).ec != std::errc())
    return row->name;
  const std::string file = file_of(fd);
  return row->name + (file.empty() ? "" : " of " + file);
}

std::string words_of(const RankProbe& probe) {
  std::string text = process_word(probe.state);
  if (text.empty()) text = "gone";
  if (!probe.wait_channel.empty()) text += " in " + printable(probe.wait_channel);
  if (!probe.system_call.empty()) text += ", system call " + printable(probe.system_call);
  if (!probe.stack.empty() && probe.stack != kHiddenStack)
    text += ", kernel stack " + printable(probe.stack, limits::kMaxKernelStack);
  return text;
}

RankPicture picture_process(std::uint32_t rank, pid_t pid) {
  RankPicture picture;
  picture.probe = probe_process(rank, pid);
  if (picture.probe.state.empty()) return picture;
  const std::string folder = "/proc/" + std::to_string(pid);
  picture.command = cut(read_proc_file(folder + "/comm").value_or(""), limits::kMaxProcessText);
  if (picture.command.ends_with('\n')) picture.command.pop_back();
  picture.probe.system_call =
      cut(system_call_name(
              read_proc_file(folder + "/syscall").value_or(""),
              [&](std::uint64_t fd) { return link_text(folder + "/fd/" + std::to_string(fd)); }),
          limits::kMaxProcessText);
  // The kernel shows it to root alone.
  const std::optional<std::string> stack = read_proc_file(folder + "/stack");
  picture.probe.stack = stack ? stack_names(*stack) : kHiddenStack;
  return picture;
}

void cut_stacks(std::vector<RankProbe>& ranks, std::size_t bytes) {
  if (ranks.empty()) return;
  const std::size_t share = bytes / ranks.size();
  for (RankProbe& rank : ranks)
    if (rank.stack.size() > share) rank.stack.resize(share);
}

void cut_pictures(std::vector<RankPicture>& ranks, std::size_t bytes) {
  if (ranks.empty()) return;
  const std::size_t share = bytes / ranks.size() / 3;  // for each of three lists
  for (RankPicture& rank : ranks) {
    if (rank.probe.stack.size() > share) rank.probe.stack.resize(share);
    auto& unconnected = rank.report.unconnected;
    if (unconnected.size() > share / sizeof unconnected[0])
      unconnected.resize(share / sizeof unconnected[0]);
    auto& pending = rank.report.pending;
    const auto size_of = [](const PendingTensor& tensor) {
      return tensor.name.size() + tensor.ranks.size() * sizeof(std::uint32_t);
    };
    // The oldest is always told, at worst as if all ranks took part.
    if (!pending.empty() && size_of(pending.front()) > share) pending.front().ranks.clear();
    std::size_t size = 0;
    std::size_t kept = 0;
    while (kept < pending.size() && (kept == 0 || size + size_of(pending[kept]) <= share))
      size += size_of(pending[kept++]);
    pending.resize(kept);
  }
}

}  // namespace hvdrun
