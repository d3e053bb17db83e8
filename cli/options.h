// The command line of hvdrun. One table of options serves parsing and help.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace hvdrun {

// Bad input: what() is one or two lines for the user; the exit code is 64.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum class ControlTransport { unix_socket, tcp };

struct Options {
  std::optional<std::uint32_t> np;
  std::optional<std::string> hosts;  // as given with -H
  std::vector<std::string> exports;  // -x NAME or NAME=VALUE
  ControlTransport control = ControlTransport::unix_socket;
  bool every_host_local = false;  // --transport local
  std::chrono::milliseconds start_timeout{};
  std::chrono::milliseconds grace{};
  std::chrono::milliseconds lease{};
  bool verbose = false;
  bool version = false;
  bool check_build = false;
  bool help = false;
  std::vector<std::string> command;  // the program and its own arguments
};

// `args` without argv[0]. The first argument that is neither an option nor an option's value
// begins the program; nothing from there on is looked at. Throws UsageError.
Options parse_options(const std::vector<std::string>& args);

// The text of --help; fits a screen.
std::string help_text();

}  // namespace hvdrun
