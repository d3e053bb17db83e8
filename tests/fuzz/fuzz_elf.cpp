// A program that is none, or a broken one: read within limits, or refused.
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

#include "common/process/elf_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const int fd = ::memfd_create("hvdrun-fuzz", MFD_CLOEXEC);
  if (fd < 0 || ::ftruncate(fd, 0) != 0 ||
      ::pwrite(fd, data, size, 0) != static_cast<ssize_t>(size))
    std::abort();
  const auto file = hvdrun::read_elf_file("/proc/self/fd/" + std::to_string(fd));
  if (!file) return 0;
  // Every string ends within the file.
  assert(file->interpreter.size() < size && file->soname.size() < size);
  assert(file->rpath.size() < size && file->runpath.size() < size);
  for (const std::string& name : file->needed) assert(name.size() < size);
  return 0;
}
