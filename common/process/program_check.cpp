#include "common/process/program_check.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/exit_code.h"
#include "common/base/fault_text.h"
#include "common/base/printable.h"
#include "common/process/elf_file.h"
#include "common/process/library_search.h"
#include "common/process/process.h"
#include "common/process/script_check.h"

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

const char* path_of(const ProgramUse& use) {
  const char* const path = find_variable(use.env, "PATH");
  return path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin";
}

// The target of a link that leads nowhere; empty when the file is none.
std::string link_target(const std::string& file) {
  char target[4096];
  const ssize_t size = ::readlink(file.c_str(), target, sizeof target);
  struct stat info {};
  if (size <= 0 || ::stat(file.c_str(), &info) == 0) return "";
  return {target, static_cast<std::size_t>(size)};
}

// The first link of that name in PATH that leads nowhere, with its folder.
std::string broken_link_in_path(const ProgramUse& use, const std::string& program) {
  const std::string path = path_of(use);
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find(':', begin), path.size());
    std::string file = path.substr(begin, end - begin) + "/" + program;
    if (file.front() == '/' && !link_target(file).empty()) return file;
    begin = end + 1;
  }
  return "";
}

ProgramProblem broken_link(const std::string& link, const std::string& target, int error) {
  return {exit_code::kNotFound,
          quoted_word(link) + " is a link to " + quoted_word(target) +
              (error == ELOOP ? ", which leads back to it" : ", which is not there") +
              "; name the program itself, or mend the link (ln -sfn PROGRAM " + printable(link) +
              ")"};
}

ProgramProblem not_found(const ProgramUse& use, const std::string& program) {
  std::string text = quoted_word(program) + ": No such file or directory";
  if (program.find('/') == std::string::npos) {
    if (const std::string link = broken_link_in_path(use, program); !link.empty())
      return broken_link(link, link_target(link), ENOENT);
    text = quoted_word(program) + ": no such program in PATH";
    if (::access((use.cwd + "/" + program).c_str(), X_OK) == 0)
      text += "; for the one in this folder write ./" + printable(program);
    else if (program.ends_with(".py"))
      text += "; write python3 " + printable(program);
    if (program.find(' ') != std::string::npos)
      text += "; write the program and its arguments as words of their own, without quotes";
  }
  return {exit_code::kNotFound, text};
}

ProgramProblem not_executable(const std::string& program, const std::string& file,
                              const std::error_code& ec) {
  struct stat info {};
  if (::stat(file.c_str(), &info) == 0 && S_ISDIR(info.st_mode))
    return {exit_code::kNotExecutable, quoted_word(program) + " is a folder, not a program"};
  if (ec.value() != EACCES)
    return {exit_code::kNotExecutable, quoted_word(program) + ": " + fault_text(ec)};
  return {exit_code::kNotExecutable,
          quoted_word(program) + ": Permission denied; " +
              (program.ends_with(".py") ? "write python3 " + printable(program)
                                        : "is it executable (chmod +x)?")};
}

std::optional<ProgramProblem> check_one(const ProgramUse& use, const std::string& program) {
  std::string file;
  const std::error_code ec = find_program(program, path_of(use), use.cwd, file);
  if (file.empty()) file = program;
  if (file.empty() || file.front() != '/') file.insert(0, use.cwd + "/");
  if (const std::string target = ec ? link_target(file) : ""; !target.empty())
    return broken_link(program, target, ec.value());
  if (ec.value() == ENOENT || ec.value() == ENOTDIR) return not_found(use, program);
  if (ec) return not_executable(program, file, ec);
  if (const std::string problem = interpreter_problem(program, file, use.env, use.cwd);
      !problem.empty())
    return ProgramProblem{exit_code::kNotExecutable, quoted_word(program) + problem};
  // $ORIGIN is the folder of the file itself, not of a link to it.
  if (char* const real = ::realpath(file.c_str(), nullptr); real != nullptr) {
    file = real;
    ::free(real);  // NOLINT(cppcoreguidelines-no-malloc): realpath's
  }
  const auto elf = read_elf_file(file);
  if (!elf) return std::nullopt;
  if (!elf->interpreter.empty() && ::access(elf->interpreter.c_str(), F_OK) != 0 && errno == ENOENT)
    return ProgramProblem{exit_code::kNotExecutable,
                          quoted_word(program) + ": its loader " + elf->interpreter +
                              " is not found; was it built for another C library?"};
  if (const std::string* const mpi = use.allow_mpi || use.copies == 1 ? nullptr : find_mpi(*elf))
    return ProgramProblem{
        exit_code::kUsage,
        quoted_word(program) + " is an MPI program (" + *mpi + ") and would run as " +
            std::to_string(use.copies) +
            " copies of rank 0 of 1; start it with mpirun, or with --allow-mpi all the same"};
  if (const auto missing = find_missing_library(file, *elf, use.env))
    return ProgramProblem{
        exit_code::kNotExecutable,
        quoted_word(program) + ": the library " + missing->name + " is not found" +
            (missing->needed_by == file ? "" : ", which " + missing->needed_by + " needs") +
            "; install it, or name its folder: -x LD_LIBRARY_PATH=FOLDER"};
  return std::nullopt;
}

bool is_about_the_file(int error) {
  return error == ENOENT || error == ENOTDIR || error == ELOOP || error == EACCES ||
         error == ENOEXEC;
}

}  // namespace

std::optional<ProgramProblem> check_programs(const std::vector<std::string>& programs,
                                             const ProgramUse& use) {
  struct stat folder {};
  if (::stat(use.cwd.c_str(), &folder) != 0 || !S_ISDIR(folder.st_mode))
    return ProgramProblem{exit_code::kUsage, "no such folder to start in: " + quoted_word(use.cwd)};
  for (const std::string& program : programs)
    if (auto problem = check_one(use, program)) return problem;
  return std::nullopt;
}

std::string start_fault(const std::string& program, const std::string& file,
                        const std::error_code& ec, const ProgramUse& use) {
  if (ec.value() == ENOENT && ::access(use.cwd.c_str(), X_OK) != 0)
    return "the working folder " + quoted_word(use.cwd) + ": " + ec.message();
  const auto problem = is_about_the_file(ec.value()) ? check_one(use, program) : std::nullopt;
  if (problem) return problem->text;
  if (ec.value() != ENOEXEC) return quoted_word(program) + ": " + fault_text(ec);
  const std::string machine = other_machine(file.starts_with('/') ? file : use.cwd + "/" + file);
  if (machine.empty())
    return quoted_word(program) + ": " + ec.message() + "; it is no program and no script";
  return quoted_word(program) + " is a program for " + machine + "; build it for that";
}

}  // namespace hvdrun
