// The parts of a program or library that the dynamic loader would read: the libraries that it
// needs, and where it wants them to be looked for. Files are foreign bytes: every offset is
// checked.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace hvdrun {

struct ElfFile {
  std::string interpreter;          // of a program: the loader; empty: none
  std::vector<std::string> needed;  // DT_NEEDED, in order
  std::string soname;
  std::string rpath;  // DT_RPATH and DT_RUNPATH as they stand, colon separated
  std::string runpath;
};

// Nothing when it is not an ELF file of this machine's kind, or when anything in it is odd.
std::optional<ElfFile> read_elf_file(const std::string& path);

}  // namespace hvdrun
