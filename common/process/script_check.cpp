#include "common/process/script_check.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fcntl.h>
#include <string_view>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <elf.h>

#include "common/base/printable.h"
#include "common/base/unique_fd.h"
#include "common/process/process.h"

namespace hvdrun {
namespace {

// The part of a first line that the kernel reads (BINPRM_BUF_SIZE).
constexpr std::size_t kFirstLine = 256;
// The bytes that a shell looks at before it takes a file for text.
constexpr std::size_t kTextSample = 80;

// False: it cannot be read.
bool read_beginning(const std::string& file, std::string& bytes) {
  const UniqueFd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  char buffer[kFirstLine];
  const ssize_t size = fd ? ::read(fd.get(), buffer, sizeof buffer) : -1;
  if (size < 0) return false;
  bytes.assign(buffer, static_cast<std::size_t>(size));
  return true;
}

constexpr const char* kBlanks = " \t";
// The characters that env -S takes for the end of a word; so a carriage return does no harm there.
constexpr const char* kSplitAt = " \t\v\f\r";

std::string_view without_blanks(std::string_view text, const char* blanks = kBlanks) {
  const auto begin = text.find_first_not_of(blanks);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(blanks) + 1 - begin);
}

std::string_view first_word(std::string_view text, const char* blanks = kBlanks) {
  return text.substr(0, std::min(text.find_first_of(blanks), text.size()));
}

std::string carriage_return(const std::string& program, const char* taken_for) {
  return ": its first line ends with a carriage return, as lines of Windows do, which is taken for "
         "part of the interpreter's " +
         std::string(taken_for) + "; write sed -i 's/\\r$//' " + printable(program);
}

// `#!/usr/bin/env python3`, or with -S and arguments; what env is told besides is not looked at.
std::string problem_of_env(const std::string& program, std::string_view argument,
                           const Environment& env, const std::string& cwd) {
  const bool splits = argument.starts_with("-S");
  if (splits) argument = without_blanks(argument.substr(2), kSplitAt);
  const std::string word(splits ? first_word(argument, kSplitAt) : argument);
  if (word.empty() || word.front() == '-' || word.find_first_of("=$'\"\\") != std::string::npos)
    return "";
  const char* const path = find_variable(env, "PATH");
  std::string found;
  if (path == nullptr || find_program(word, path, cwd, found).value() != ENOENT) return "";
  if (word.back() == '\r') return carriage_return(program, "name");
  if (word.find(' ') != std::string::npos)
    return ": its first line has env look for one program of the name " + quoted_word(word) +
           "; write #!/usr/bin/env -S " + printable(word);
  return ": its interpreter " + quoted_word(word) +
         " (first line, by env) is not in PATH; install it, or name another one there";
}

const char* machine_name(std::uint16_t machine) {
  switch (machine) {
    case EM_X86_64:
      return "x86_64";
    case EM_AARCH64:
      return "aarch64";
    case EM_386:
      return "x86 of 32 bits";
    case EM_ARM:
      return "arm of 32 bits";
    case EM_PPC64:
      return "ppc64";
    case EM_RISCV:
      return "riscv";
    case EM_S390:
      return "s390";
    default:
      return "another processor";
  }
}

}  // namespace

bool is_shell_text(const std::string& file) {
  std::string bytes;
  if (!read_beginning(file, bytes)) return false;
  bytes.resize(std::min({bytes.size(), bytes.find('\n'), kTextSample}));
  return bytes.find('\0') == std::string::npos;
}

std::string interpreter_problem(const std::string& program, const std::string& file,
                                const Environment& env, const std::string& cwd) {
  std::string bytes;
  if (!read_beginning(file, bytes) || !bytes.starts_with("#!")) return "";
  const std::size_t end = std::min(bytes.find('\n'), bytes.size());
  const std::string_view line = without_blanks(std::string_view(bytes).substr(2, end - 2));
  if (line.find('\0') != std::string_view::npos) return "";
  const std::string interpreter(first_word(line));
  const bool cut_off = end == kFirstLine && interpreter.size() == line.size();
  if (interpreter.empty() || cut_off) return "";
  const std::string full = interpreter.front() == '/' ? interpreter : cwd + "/" + interpreter;
  struct stat info {};
  if (::stat(full.c_str(), &info) != 0) {
    if (errno != ENOENT && errno != ENOTDIR) return "";
    if (interpreter.back() == '\r') return carriage_return(program, "name");
    return ": its interpreter " + quoted_word(interpreter) +
           " (first line) is not found; install it, or name another one there";
  }
  if (S_ISDIR(info.st_mode))
    return ": its interpreter " + quoted_word(interpreter) +
           " (first line) is a folder; name a program there";
  if (::access(full.c_str(), X_OK) != 0 && errno == EACCES)
    return ": its interpreter " + quoted_word(interpreter) +
           " (first line) cannot be executed (Permission denied); is it executable (chmod +x)?";
  const std::string_view argument = without_blanks(line.substr(interpreter.size()));
  const std::string name = interpreter.substr(interpreter.rfind('/') + 1);
  if (name == "env") return problem_of_env(program, argument, env, cwd);
  // Others, perl for one, take it for the end of their options.
  const bool is_strict = name.ends_with("sh") || name.starts_with("python");
  return is_strict && argument.ends_with('\r') ? carriage_return(program, "argument") : "";
}

std::string other_machine(const std::string& file) {
  std::string bytes;
  constexpr std::size_t kMachineAt = 18;  // e_machine, in either class
  if (!read_beginning(file, bytes) || bytes.size() < kMachineAt + 2 ||
      std::memcmp(bytes.data(), ELFMAG, SELFMAG) != 0)
    return "";
  const bool big = bytes[EI_DATA] == ELFDATA2MSB;
  const auto at = [&](std::size_t i) { return static_cast<std::uint8_t>(bytes[kMachineAt + i]); };
  const auto machine = static_cast<std::uint16_t>(at(big ? 1 : 0) | at(big ? 0 : 1) << 8U);
  utsname here{};
  ::uname(&here);
  const std::string name = machine_name(machine);
  return name == here.machine ? "" : name + ", and this machine is " + here.machine;
}

}  // namespace hvdrun
