// The interpreter of a file that is no ELF program. Any doubt counts as fine.
#pragma once

#include <string>

#include "common/base/environment.h"

namespace hvdrun {

// Text to be given to /bin/sh where the kernel does not know the file (ENOEXEC), as execvp and
// every shell do: no zero byte in its beginning. An empty file is one.
bool is_shell_text(const std::string& file);

// The reason why the interpreter of the first line (#!) cannot be started, with what to do, to
// stand behind the name of the program; empty when nothing is known against it. `program` as the
// user wrote it, `file` where it is.
std::string interpreter_problem(const std::string& program, const std::string& file,
                                const Environment& env, const std::string& cwd);

// Where the file is a program of another kind of machine: what it is for; else empty.
std::string other_machine(const std::string& file);

}  // namespace hvdrun
