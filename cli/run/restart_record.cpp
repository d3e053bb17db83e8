#include "cli/run/restart_record.h"

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "common/base/environment.h"
#include "common/base/unique_fd.h"
#include "common/wire/wire.h"

namespace hvdrun {
namespace {

// The number of the descriptor that has the record. Nobody else is handed it: it is taken out of
// the environment at once.
constexpr const char* kRecordVariable = "_HVDRUN_RESTART";
constexpr const char* kRecordName = "hvdrun restart";  // of the file in memory, which tells it

std::error_code errno_fault() { return {errno, std::system_category()}; }

std::string contents_of(int fd) {
  std::string text;
  std::array<char, 16384> buffer;
  for (off_t at = 0;; at = static_cast<off_t>(text.size())) {
    const ssize_t size = ::pread(fd, buffer.data(), buffer.size(), at);
    if (size <= 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(size));
  }
}

bool is_record(int fd) {
  std::array<char, 64> target{};
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  return ::readlink(link.c_str(), target.data(), target.size() - 1) > 0 &&
         std::string(target.data()).starts_with(std::string("/memfd:") + kRecordName);
}

UniqueFd file_with(const std::string& bytes, std::error_code& ec) {
  UniqueFd fd(::memfd_create(kRecordName, MFD_CLOEXEC));
  std::size_t written = 0;
  while (fd && written < bytes.size()) {
    const ssize_t size = ::write(fd.get(), bytes.data() + written, bytes.size() - written);
    if (size < 0 && errno != EINTR) {
      ec = errno_fault();
      return {};
    }
    if (size > 0) written += static_cast<std::size_t>(size);
  }
  if (!fd) ec = errno_fault();
  return fd;
}

std::vector<std::string> own_arguments() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin < text.size(); begin = text.find('\0', begin) + 1)
    words.emplace_back(text.c_str() + begin);
  return words;
}

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

std::optional<RestartRecord> take_restart_record() {
  const char* const text =
      std::getenv(kRecordVariable);  // NOLINT(concurrency-mt-unsafe): at the start
  if (text == nullptr) return std::nullopt;
  int number = -1;
  std::from_chars(text, text + std::strlen(text), number);
  ::unsetenv(kRecordVariable);  // NOLINT(concurrency-mt-unsafe)
  if (number <= 2 || !is_record(number)) return std::nullopt;
  const UniqueFd fd(number);
  RestartRecord record;
  if (decode(contents_of(fd.get()), record) || record.job_id.empty())
    throw std::runtime_error("what the last start of the job has left cannot be read");
  if (record.events_fd > 2) ::fcntl(static_cast<int>(record.events_fd), F_SETFD, FD_CLOEXEC);
  ::prctl(PR_SET_NAME, "hvdrun");  // exec has called it by the name of the link
  pipe_texts() = std::exchange(record.texts, {});
  return record;
}

void keep_events_pipe(const std::string& path, RestartRecord& record) {
  struct stat status {};
  if (record.events_fd != 0 || path.empty()) return;
  if (::stat(path.c_str(), &status) != 0 || !S_ISFIFO(status.st_mode)) return;
  const int fd = ::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd > 2) record.events_fd = static_cast<std::uint32_t>(fd);  // until hvdrun ends
}

std::error_code start_again(RestartRecord record) {
  record.texts = pipe_texts();
  if (record.events_fd > 2) ::fcntl(static_cast<int>(record.events_fd), F_SETFD, 0);
  std::error_code ec;
  const std::string bytes = encode(record);
  std::vector<std::string> arguments = own_arguments();
  RestartRecord read_back;
  // A text may be longer than a message takes.
  if (decode(bytes, read_back) || arguments.empty())
    return std::make_error_code(std::errc::invalid_argument);
  const UniqueFd fd = file_with(bytes, ec);
  if (!fd) return ec;
  Environment environment = own_environment();
  set_variable(environment, kRecordVariable, std::to_string(fd.get()));
  ::fcntl(fd.get(), F_SETFD, 0);  // it stays open over the exec
  // This very build, whatever the name of its file stands for now.
  ::execve("/proc/self/exe", pointers_to(arguments).data(), pointers_to(environment).data());
  return errno_fault();
}

}  // namespace hvdrun
