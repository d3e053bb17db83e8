// The text that hvdrun prints itself where it starts no job: help, plans, lists.
#pragma once

#include <string_view>
#include <system_error>
#include <unistd.h>

namespace hvdrun {

// stdout could not be written: exit code 74, and not that of success.
class OutputError : public std::system_error {
 public:
  explicit OutputError(int error) : std::system_error(error, std::system_category(), "stdout") {}
};

// All of it, at once, on stdout. Throws OutputError. A reader that has gone away ends the process
// by SIGPIPE, as it ends others.
void print(std::string_view text);

// Throws OutputError for what shows only when a file is closed, on NFS or over a quota, whoever has
// written it. `close_file` stands for close().
void confirm_output(int (*close_file)(int) = ::close);

}  // namespace hvdrun
