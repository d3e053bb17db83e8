#include "cli/plan/working_folder.h"

#include <cstdlib>
#include <optional>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/options/options.h"

namespace hvdrun {
namespace {

// Without "." and doubled slashes. None for what PWD may not be (POSIX): a relative path, or one
// with "..", which may lead elsewhere on each host.
std::optional<std::string> plain_path(std::string_view path) {
  if (!path.starts_with('/')) return std::nullopt;
  std::string plain;
  while (!path.empty()) {
    path.remove_prefix(1);
    const std::string_view name = path.substr(0, path.find('/'));
    path.remove_prefix(name.size());
    if (name == "..") return std::nullopt;
    if (!name.empty() && name != ".") plain.append("/").append(name);
  }
  return plain.empty() ? "/" : plain;
}

bool is_working_folder(const std::string& folder) {
  struct stat named {};
  struct stat here {};
  return ::stat(folder.c_str(), &named) == 0 && ::stat(".", &here) == 0 &&
         named.st_dev == here.st_dev && named.st_ino == here.st_ino;
}

}  // namespace

std::string working_folder(const char* pwd) {
  if (const auto named = plain_path(pwd == nullptr ? "" : pwd); named && is_working_folder(*named))
    return *named;
  return plain_working_folder();
}

std::string plain_working_folder() {
  char* const found = ::getcwd(nullptr, 0);
  if (found == nullptr) return {};
  std::string folder = found;
  std::free(found);  // NOLINT(cppcoreguidelines-no-malloc): getcwd's
  return folder;
}

std::string folder_of_ranks(const std::string& here, const std::string& asked) {
  if (asked.starts_with('/')) return asked;
  if (here.empty())
    throw UsageError(
        "the working folder was removed; go to one that is there, or name one for the ranks: "
        "--chdir /FOLDER");
  return asked.empty() ? here : here + "/" + asked;
}

void name_folder(Environment& env, const std::string& folder) {
  if (find_variable(env, "PWD") == nullptr) return;
  if (const auto named = plain_path(folder)) return set_variable(env, "PWD", *named);
  erase_variable(env, "PWD");
}

}  // namespace hvdrun
