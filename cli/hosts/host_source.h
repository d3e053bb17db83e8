// A source of hosts that come and go: a script that lists them, a hostfile that somebody writes
// anew, or Slurm, which may take nodes from an allocation. All are read by a program, since a
// script may hang and a file system too. Sans-I/O.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/hosts/host_list.h"

namespace hvdrun {

struct HostSource {
  enum class Kind : std::uint8_t { none, script, hostfile, slurm } kind = Kind::none;
  std::string text;   // the script, as given, the path of the file, or the number of Slurm's job
  std::string where;  // the option, for messages
  std::optional<std::uint32_t> slots = {};  // of a host that is listed without a number; none: 1
  std::map<std::string, std::uint32_t> slots_of = {};  // likewise, by host: those of an allocation
};

// The program that prints the source's hosts. A script is a file, or a line for the shell.
std::vector<std::string> command_of(const HostSource& source);

// The source as it was read once.
struct HostListing {
  std::vector<HostEntry> hosts;
  std::string fault;                 // why none of it is used; empty: it is
  std::vector<std::string> remarks;  // faults in spite of which it is used
};

// A line of a script is host, host:slots or [user@]host:port:slots. Blank lines and what follows a
// # do not matter. A host that stands twice counts once, as it is said first.
HostListing read_listing(const HostSource& source, std::string_view text);

// Keeps the last good list of a source, and tells each kind of fault once.
class HostLister {
 public:
  // `file`: whoever writes it may not be done, so a list counts when it has been read twice.
  HostLister(std::vector<HostEntry> hosts, bool file);

  // The list, when it is another one now.
  std::optional<std::vector<HostEntry>> take(HostListing listing);
  // The user says that it is as it is to be.
  void believe_next() { believed_ = true; }
  // Lines for the user.
  std::vector<std::string> take_news() { return std::exchange(news_, {}); }

 private:
  void tell(const std::string& news);

  std::vector<HostEntry> hosts_;
  std::optional<std::vector<HostEntry>> seen_;  // once, in a file
  bool file_;
  bool believed_ = false;
  std::set<std::string> told_;
  std::vector<std::string> news_;
};

}  // namespace hvdrun
