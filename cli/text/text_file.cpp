#include "cli/text/text_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

#include "common/base/limits.h"
#include "common/base/printable.h"
#include "common/base/unique_fd.h"

namespace hvdrun {
namespace {

// For the writer of a pipe, as in --hostfile <(...), to come up with more.
constexpr int kPipeTimeoutMs = 10'000;

}  // namespace

std::vector<PipeText>& pipe_texts() {
  static std::vector<PipeText> texts;
  return texts;
}

std::string read_text_file(const std::string& path, const std::string& where) {
  const auto fail = [&](const std::string& why) {
    return UsageError(where + " " + quoted_word(path) + ": " + why);
  };
  for (const PipeText& known : pipe_texts())
    if (known.path == path) return known.text;
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) throw fail(std::generic_category().message(errno));
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) throw fail(std::generic_category().message(errno));
  if (!S_ISREG(status.st_mode) && !S_ISFIFO(status.st_mode)) throw fail("is not a file");
  std::string text;
  std::array<char, 16384> buffer;
  for (;;) {
    const ssize_t size = ::read(fd.get(), buffer.data(), buffer.size());
    if (size == 0) {
      if (S_ISFIFO(status.st_mode)) pipe_texts().push_back({path, text});
      return text;
    }
    if (size > 0) {
      text.append(buffer.data(), static_cast<std::size_t>(size));
      if (text.size() > limits::kMaxTextFile) throw fail("is longer than 16 MiB");
      continue;
    }
    if (errno == EINTR) continue;
    if (errno != EAGAIN) throw fail(std::generic_category().message(errno));
    pollfd wait{fd.get(), POLLIN, 0};
    if (::poll(&wait, 1, kPipeTimeoutMs) == 0) throw fail("nothing was written to it for 10 s");
  }
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  const auto begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin);
}

std::vector<std::string_view> trimmed_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    lines.push_back(trimmed(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

}  // namespace hvdrun
