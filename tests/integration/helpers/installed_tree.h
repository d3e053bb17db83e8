// The project as `meson install` lays it out, in a folder of its own, and programs built against it
// the way an outside user would: one g++ line with pkg-config.
#pragma once

#include <string>

#include "tests/integration/helpers/run_program.h"

namespace hvdrun::test {

class InstalledTree {
 public:
  InstalledTree();  // installs; throws with meson's output when that fails

  // Compiles `source` as C++17 without a warning against the library `package`. Returns the path of
  // the program; throws with the compiler's output.
  std::string compile(const std::string& name, const std::string& source,
                      const std::string& package) const;
  // The installed hvdrun with these arguments.
  RunResult hvdrun(std::vector<std::string> args, RunOptions options = {}) const;
  // Names of the installed files that have this text in them, programs and libraries as well.
  std::vector<std::string> files_with(const std::string& text) const;

 private:
  TempFolder folder_;
  std::string root_;
  std::string prefix_;
  std::string pkg_config_;
  std::string library_;
  std::string hvdrun_;
};

}  // namespace hvdrun::test
