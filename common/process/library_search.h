// Finds the shared libraries of a program as glibc's loader does, without running it. Whatever this
// does not understand counts as found: a library is called missing only when there is no doubt.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "common/base/environment.h"
#include "common/process/elf_file.h"

namespace hvdrun {

struct MissingLibrary {
  std::string name;
  std::string needed_by;  // the path of the program or library
};

// `env`: of the program to be.
std::optional<MissingLibrary> find_missing_library(const std::string& path, const ElfFile& program,
                                                   const Environment& env);

}  // namespace hvdrun
