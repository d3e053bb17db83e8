// Hosts as network namespaces with an sshd each (scripts/cluster), for the life of a test.
#pragma once

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "tests/integration/helpers/run_program.h"

namespace hvdrun::test {

inline std::set<std::string> set_of_lines(const std::string& text) {
  std::set<std::string> lines;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    lines.insert(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

// A session is a program of its own from OpenSSH 9.8 on. That sshd also shuts out for a while who
// has often ended before the login.
bool has_sshd_session();

// Lines without those by which hvdrun says, on a slow machine, what it still waits for.
std::string without_waiting(const std::string& text);

class Cluster {
 public:
  // Throws std::runtime_error with what scripts/cluster said.
  explicit Cluster(int hosts, bool ipv6_only = false);
  ~Cluster();
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  // The reason why there can be none here; empty: there can.
  static std::string missing();

  // The words that run a program on a host, in front of its own.
  std::vector<std::string> on(const std::string& host, std::vector<std::string> args) const;
  RunResult run_on(const std::string& host, std::vector<std::string> args) const;
  // build/hvdrun there.
  RunResult hvdrun_on(const std::string& host, std::vector<std::string> args) const;
  // scripts/cluster cut, heal, poweroff, ...
  void act(const std::string& verb, const std::string& host) const;
  // All that runs on the host and is no zombie, as seen from outside, its sshd included.
  std::vector<ProcessInfo> processes(const std::string& host) const;
  // The ones of these that belong to a job: programs of ours, the ssh client, and who has the
  // marker.
  std::vector<ProcessInfo> processes_of_job(const std::string& host,
                                            const std::string& marker) const;
  const std::string& folder() const { return folder_; }
  // The home of root there.
  std::string home(const std::string& host) const { return folder_ + "/" + host + "/home"; }

 private:
  std::string folder_;
};

}  // namespace hvdrun::test
