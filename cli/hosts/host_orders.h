// The hosts of a job as they are to be: those that its source lists, and what the user has said by
// hand since (hvdrun hosts). A word by hand counts until another one by hand. Sans-I/O.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cli/hosts/host_list.h"

namespace hvdrun {

class HostOrders {
 public:
  explicit HostOrders(std::vector<HostEntry> listed) : listed_(std::move(listed)) {}

  // The source says so now.
  void list(std::vector<HostEntry> hosts) { listed_ = std::move(hosts); }
  // A host more, or other slots of one that is listed.
  void add(const HostEntry& host);
  // No more of it. False: the job has no such host, and nothing is changed.
  bool leave(const HostEntry& host);

  std::vector<HostEntry> hosts() const;

 private:
  std::vector<HostEntry> listed_;
  std::vector<HostEntry> added_;
  std::vector<HostEntry> left_;
};

// The hosts of one word of hvdrun hosts, an item of -H; without a number they have one slot. Throws
// UsageError.
std::vector<HostEntry> parse_ordered_hosts(const std::string& word);

}  // namespace hvdrun
