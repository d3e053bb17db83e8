// What hvdrun prints itself where it starts no job: help, plans, lists.
#pragma once

#include <string_view>
#include <system_error>

namespace hvdrun {

// stdout could not be written: exit code 74, and not that of success.
class OutputError : public std::system_error {
 public:
  explicit OutputError(int error) : std::system_error(error, std::system_category(), "stdout") {}
};

// All of it, at once, on stdout. Throws OutputError. A reader that has gone away ends the process
// by SIGPIPE, as it ends others.
void print(std::string_view text);

}  // namespace hvdrun
