#include "cli/preflight.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/elf_file.h"
#include "cli/library_search.h"
#include "common/exit_code.h"
#include "common/printable.h"
#include "common/process.h"

namespace hvdrun {
namespace {

// Open MPI, MPICH, Intel MPI and MVAPICH, in C, C++ and Fortran.
constexpr auto kMpiLibraries = std::to_array<std::string_view>(
    {"libmpi.so", "libmpich.so", "libmpicxx.so", "libmpi_cxx.so", "libmpi_mpifh.so",
     "libmpi_usempif08.so", "libmpifort.so", "libmpichfort.so", "libmpichcxx.so"});

const std::string* find_mpi(const ElfFile& program) {
  const std::string* found = nullptr;
  for (const std::string& name : program.needed) {
    if (name.starts_with("libhvd")) return nullptr;  // it finds its ranks by us
    if (std::any_of(kMpiLibraries.begin(), kMpiLibraries.end(),
                    [&](std::string_view mpi) { return name.starts_with(mpi); }))
      found = &name;
  }
  return found;
}

PreflightProblem not_found(const JobSpec& spec, const std::string& program) {
  std::string text = quoted_word(program) + ": No such file or directory";
  if (program.find('/') == std::string::npos) {
    text = quoted_word(program) + ": no such program in PATH";
    if (::access((spec.cwd + "/" + program).c_str(), X_OK) == 0)
      text += "; for the one in this folder write ./" + printable(program);
    else if (program.ends_with(".py"))
      text += "; write python3 " + printable(program);
    if (program.find(' ') != std::string::npos)
      text += "; write the program and its arguments as words of their own, without quotes";
  }
  return {exit_code::kNotFound, text};
}

PreflightProblem not_executable(const std::string& program, const std::string& file) {
  struct stat info {};
  if (::stat(file.c_str(), &info) == 0 && S_ISDIR(info.st_mode))
    return {exit_code::kNotExecutable, quoted_word(program) + " is a folder, not a program"};
  return {exit_code::kNotExecutable,
          quoted_word(program) + ": Permission denied; " +
              (program.ends_with(".py") ? "write python3 " + printable(program)
                                        : "is it executable (chmod +x)?")};
}

std::optional<PreflightProblem> check_program(const JobSpec& spec, const std::string& program,
                                              bool allow_mpi) {
  const char* const path = find_variable(spec.env, "PATH");
  std::string file;
  const std::error_code ec = find_program(
      program, path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin", spec.cwd, file);
  if (ec.value() == ENOENT || ec.value() == ENOTDIR) return not_found(spec, program);
  if (file.empty()) file = program;
  if (file.front() != '/') file.insert(0, spec.cwd + "/");
  if (ec) return not_executable(program, file);
  // $ORIGIN is the folder of the file itself, not of a link to it.
  std::error_code ignored;
  if (const auto real = std::filesystem::canonical(file, ignored); !ignored) file = real.string();
  const auto elf = read_elf_file(file);
  if (!elf) return std::nullopt;
  if (const std::string* const mpi = allow_mpi || spec.np == 1 ? nullptr : find_mpi(*elf))
    return PreflightProblem{
        exit_code::kUsage,
        quoted_word(program) + " is an MPI program (" + *mpi + ") and would run as " +
            std::to_string(spec.np) +
            " copies of rank 0 of 1; start it with mpirun, or with --allow-mpi all the same"};
  if (const auto missing = find_missing_library(file, *elf, spec.env))
    return PreflightProblem{
        exit_code::kNotExecutable,
        quoted_word(program) + ": the library " + missing->name + " is not found" +
            (missing->needed_by == file ? "" : ", which " + missing->needed_by + " needs") +
            "; install it, or name its folder: -x LD_LIBRARY_PATH=FOLDER"};
  return std::nullopt;
}

}  // namespace

std::optional<PreflightProblem> preflight(const JobSpec& spec, bool allow_mpi) {
  struct stat folder {};
  if (::stat(spec.cwd.c_str(), &folder) != 0 || !S_ISDIR(folder.st_mode))
    return PreflightProblem{exit_code::kUsage,
                            "no such folder to start in: " + quoted_word(spec.cwd)};
  auto problem = check_program(spec, spec.argv.empty() ? "" : spec.argv.front(), allow_mpi);
  for (const ProgramPart& part : spec.programs)
    if (!problem)
      problem = check_program(spec, part.argv.empty() ? "" : part.argv.front(), allow_mpi);
  return problem;
}

}  // namespace hvdrun
