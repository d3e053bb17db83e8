#include "cli/openers/ssh/ssh_surroundings.h"

#include <cstdlib>
#include <fcntl.h>
#include <map>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "common/base/limits.h"
#include "common/base/unique_fd.h"

namespace hvdrun {
namespace {

constexpr mode_t kOfOthers = 077;

// A pipe or a device in place of a file would make hvdrun wait.
std::optional<std::string> read_regular_file(const std::string& path, mode_t forbidden) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info {};
  if (!file || ::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) return std::nullopt;
  if ((info.st_mode & forbidden) != 0 && info.st_uid == ::getuid()) return std::nullopt;
  if (info.st_size < 0 || static_cast<std::size_t>(info.st_size) > limits::kMaxTextFile)
    return std::nullopt;
  std::string text(static_cast<std::size_t>(info.st_size), '\0');
  const ssize_t size = ::read(file.get(), text.data(), text.size());
  if (size < 0) return std::nullopt;
  text.resize(static_cast<std::size_t>(size));
  return text;
}

std::function<std::optional<std::string>(const std::string&)> cached_reader(mode_t forbidden) {
  auto files = std::make_shared<std::map<std::string, std::optional<std::string>>>();
  return [files, forbidden](const std::string& path) {
    const auto [entry, is_new] = files->try_emplace(path);
    if (is_new) entry->second = read_regular_file(path, forbidden);
    return entry->second;
  };
}

std::string variable(const char* name) {
  const char* const value = ::secure_getenv(name);
  return value != nullptr ? value : "";
}

}  // namespace

SshSurroundings ssh_surroundings() {
  SshSurroundings here;
  passwd entry{};
  passwd* found = nullptr;
  char buffer[4096];
  // ssh goes by this, not by HOME.
  ::getpwuid_r(::getuid(), &entry, buffer, sizeof(buffer), &found);
  here.user = found != nullptr ? found->pw_name : variable("USER");
  here.home = found != nullptr ? found->pw_dir : variable("HOME");
  here.agent = variable("SSH_AUTH_SOCK");
  here.has_ticket = !variable("KRB5CCNAME").empty() ||
                    ::access(("/tmp/krb5cc_" + std::to_string(::getuid())).c_str(), F_OK) == 0;
  here.read_file = cached_reader(0);
  here.read_key = cached_reader(kOfOthers);
  return here;
}

}  // namespace hvdrun
