#include "common/base/output_place.h"

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <limits.h>

#include "common/base/descriptor_limit.h"

namespace hvdrun {
namespace {

constexpr int kMaxLinks = 40;  // as the kernel's

std::string folder_of(const std::string& path) {
  const auto slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// Its links are names of descriptors, which lead to what is open and not to a path.
bool is_in_proc(const std::string& path) {
  struct statfs info {};
  return ::statfs(folder_of(path).c_str(), &info) == 0 && info.f_type == PROC_SUPER_MAGIC;
}

// The link's target, from the link's own folder on. Empty: errno.
std::string target_of(const std::string& link) {
  std::array<char, PATH_MAX> text;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  const ssize_t size = ::readlink(link.c_str(), text.data(), text.size());
  if (size <= 0) return {};
  const std::string target(text.data(), static_cast<std::size_t>(size));
  return target.front() == '/' ? target : folder_of(link) + "/" + target;
}

}  // namespace

int find_output_place(const std::string& path, OutputPlace& place) {
  if (path.empty()) return ENOENT;
  place = {path, true};
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0) {
    if (S_ISDIR(info.st_mode)) return EISDIR;
    if (S_ISSOCK(info.st_mode)) return ENXIO;
    place.is_file = S_ISREG(info.st_mode);
  } else if (errno != ENOENT) {
    return errno;
  }
  for (int i = 0; place.is_file; ++i) {
    if (::lstat(place.path.c_str(), &info) != 0) return errno == ENOENT ? 0 : errno;
    if (!S_ISLNK(info.st_mode)) return 0;
    if (i == kMaxLinks) return ELOOP;
    if (is_in_proc(place.path)) {
      place = {path, false};
      return 0;
    }
    place.path = target_of(place.path);
    if (place.path.empty()) return errno;
  }
  return 0;
}

UniqueFd open_output(const OutputPlace& place, SlowReader reader) {
  UniqueFd fd(::open(place.path.c_str(), O_WRONLY | O_APPEND | O_NOCTTY | O_NONBLOCK | O_CLOEXEC));
  // A description of our own, so nobody else begins to wait.
  if (fd && reader == SlowReader::waited_for)
    ::fcntl(fd.get(), F_SETFL, ::fcntl(fd.get(), F_GETFL) & ~O_NONBLOCK);
  return fd;
}

UniqueFd open_output_stream(const std::string& path, Begin begin, SlowReader reader) {
  OutputPlace place;
  if (const int error = find_output_place(path, place); error != 0) {
    errno = error;
    return {};
  }
  if (!place.is_file) return open_output(place, reader);
  const int flags = begin == Begin::anew ? O_TRUNC : O_APPEND;
  return UniqueFd(::open(place.path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0666));
}

bool write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

std::string output_fault_text(int error) {
  return error == ENXIO ? "a pipe that nobody reads, or a socket" : system_fault_text(error);
}

int check_output(const std::string& path) {
  OutputPlace place;
  if (const int error = find_output_place(path, place); error != 0) return error;
  if (!place.is_file) return open_output(place) ? 0 : errno;
  const std::string folder = folder_of(place.path);
  struct stat info {};
  if (::stat(folder.c_str(), &info) != 0) return errno;
  if (!S_ISDIR(info.st_mode)) return ENOTDIR;
  return ::faccessat(AT_FDCWD, folder.c_str(), W_OK | X_OK, AT_EACCESS) == 0 ? 0 : errno;
}

}  // namespace hvdrun
