#include "worker/labs/data/files/whole_file.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>

#include "common/base/flush_folder.h"
#include "common/base/output_place.h"
#include "common/base/unique_fd.h"

namespace hvdrun {
namespace {

std::string system_error_text(int number) { return std::system_category().message(number); }

std::string folder_of(const std::string& path) {
  const auto slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// A file without a name: a writer that is killed leaves nothing. None where the file system cannot.
UniqueFd unnamed_file(const std::string& folder) {
  return UniqueFd(::open(folder.c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0666));
}

// False with errno. A link replaces nothing, so a file that is there already is replaced by way of
// a second name. That name is there from the link to the rename only.
bool put_in_place(int fd, bool named, const std::string& temporary, const std::string& path) {
  if (!named) {
    const std::string self = "/proc/self/fd/" + std::to_string(fd);
    const auto link_as = [&](const std::string& name) {
      return ::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0;
    };
    if (link_as(path)) return true;
    if (errno != EEXIST) return false;
    // One of another process that had our number.
    if (::unlink(temporary.c_str()) != 0 && errno != ENOENT) return false;
    if (!link_as(temporary)) return false;
  }
  return ::rename(temporary.c_str(), path.c_str()) == 0;
}

bool replace_file(const std::string& path, std::string_view bytes, std::string& error, Sync sync) {
  // The process id keeps two programs that write the same file apart.
  const std::string temporary = path + ".tmp." + std::to_string(::getpid());
  const std::string folder = folder_of(path);
  bool named = false;
  UniqueFd fd = unnamed_file(folder);
  if (!fd) {
    fd = UniqueFd(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    named = true;
  }
  if (!fd || !write_all(fd.get(), bytes) || (sync == Sync::yes && ::fsync(fd.get()) != 0) ||
      !put_in_place(fd.get(), named, temporary, path)) {
    error = path + ": " + system_error_text(errno);
    ::unlink(temporary.c_str());
    return false;
  }
  if (::close(fd.release()) != 0) {
    error = path + ": " + system_error_text(errno);
    return false;
  }
  if (sync == Sync::no) return true;
  // Without this a power failure could take the rename back.
  if (const int failed = flush_folder(folder); failed != 0) {
    error = folder + ": " + system_error_text(failed);
    return false;
  }
  return true;
}

// The way for what is no file, or a descriptor's name: nothing is replaced, and nothing synced.
bool write_into(const OutputPlace& place, std::string_view bytes, std::string& error) {
  UniqueFd fd = open_output(place);
  if (fd && write_all(fd.get(), bytes) && ::close(fd.release()) == 0) return true;
  error = place.path + ": " + output_fault_text(errno);
  return false;
}

}  // namespace

std::optional<std::string> read_whole_file(const std::string& path, std::uint64_t limit,
                                           std::string& error) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info {};
  if (!fd || ::fstat(fd.get(), &info) != 0) {
    error = path + ": " + system_error_text(errno);
    return std::nullopt;
  }
  if (!S_ISREG(info.st_mode)) {
    error = path + ": not a regular file";
    return std::nullopt;
  }
  const auto size = static_cast<std::uint64_t>(info.st_size);
  if (size > limit) {
    error = path + ": " + std::to_string(size) + " bytes, at most " + std::to_string(limit) +
            " expected";
    return std::nullopt;
  }
  std::string bytes(static_cast<std::size_t>(size), '\0');
  std::size_t filled = 0;
  while (filled < bytes.size()) {
    const ssize_t got = ::read(fd.get(), bytes.data() + filled, bytes.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      error = path + ": " + system_error_text(errno);
      return std::nullopt;
    }
    if (got == 0) break;  // it became shorter meanwhile; the parser will say so
    filled += static_cast<std::size_t>(got);
  }
  bytes.resize(filled);
  return bytes;
}

bool can_write_file(const std::string& path, std::string& error) {
  const int fault = check_output(path);
  if (fault != 0) error = path + ": " + output_fault_text(fault);
  return fault == 0;
}

bool write_whole_file(const std::string& path, std::string_view bytes, std::string& error,
                      Sync sync) {
  OutputPlace place;
  if (const int fault = find_output_place(path, place); fault != 0) {
    error = path + ": " + output_fault_text(fault);
    return false;
  }
  return place.is_file ? replace_file(place.path, bytes, error, sync)
                       : write_into(place, bytes, error);
}

}  // namespace hvdrun
