#include "tests/integration/helpers/installed_tree.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace hvdrun::test {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

InstalledTree::InstalledTree() : root_(folder_.path() + "/root") {
  const RunResult install = run({.args = {"/usr/bin/meson", "install", "-C", build_path("."),
                                          "--no-rebuild", "--quiet", "--destdir", root_},
                                 .limit = 120s});
  if (install.exit_code != 0) throw std::runtime_error(install.out + install.err);
  for (const auto& entry : fs::recursive_directory_iterator(root_)) {
    if (entry.path().filename() == "hvd.pc") pkg_config_ = entry.path().parent_path();
    if (entry.path().parent_path().filename() == "bin" && entry.path().filename() == "hvdrun")
      hvdrun_ = entry.path();
  }
  if (pkg_config_.empty() || hvdrun_.empty())
    throw std::runtime_error("hvd.pc or hvdrun is not installed");
  prefix_ = fs::path(hvdrun_).parent_path().parent_path();
  library_ = fs::path(pkg_config_).parent_path();
}

std::string InstalledTree::compile(const std::string& name, const std::string& source,
                                   const std::string& package) const {
  folder_.file(name + ".cpp", source);
  const RunResult build =
      run({.args = {"sh", "-c",
                    "g++ -std=c++17 -Wall -Wextra -Wpedantic -Werror " + name +
                        ".cpp $(pkg-config --define-variable=prefix=" + prefix_ +
                        " --cflags --libs " + package + ") -o " + name},
           .env = {{"PKG_CONFIG_PATH", pkg_config_}, {"LD_LIBRARY_PATH", library_}},
           .cwd = folder_.path(),
           .limit = 240s});
  if (build.exit_code != 0) throw std::runtime_error(build.out + build.err);
  return folder_.path() + "/" + name;
}

RunResult InstalledTree::hvdrun(std::vector<std::string> args, RunOptions options) const {
  args.insert(args.begin(), hvdrun_);
  options.args = std::move(args);
  options.env.emplace_back("LD_LIBRARY_PATH", library_);
  if (options.cwd.empty()) options.cwd = folder_.path();
  return run(options);
}

std::vector<std::string> InstalledTree::files_with(const std::string& text) const {
  std::vector<std::string> found;
  for (const auto& entry : fs::recursive_directory_iterator(root_)) {
    if (!entry.is_regular_file() || entry.is_symlink()) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    if (bytes.find(text) != std::string::npos) found.push_back(entry.path().filename());
  }
  return found;
}

}  // namespace hvdrun::test
