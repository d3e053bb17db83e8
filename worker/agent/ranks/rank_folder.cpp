#include "worker/agent/ranks/rank_folder.h"

#include <string>
#include <sys/stat.h>

#include "common/base/environment.h"

namespace hvdrun {
namespace {

bool is_folder(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode);
}

}  // namespace

void settle_folder(LaunchBody& launch) {
  if (launch.plain_cwd.empty() || is_folder(launch.cwd) || !is_folder(launch.plain_cwd)) return;
  launch.cwd = launch.plain_cwd;
  if (find_variable(launch.env, "PWD") != nullptr) set_variable(launch.env, "PWD", launch.cwd);
}

}  // namespace hvdrun
