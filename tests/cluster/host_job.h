// A job over the hosts of a cluster that something is done to, and what came of it.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "tests/cluster/cluster.h"

namespace hvdrun::test {

struct HostJobEnd {
  int exit_code = -1;                // -1: hvdrun was still there after the limit
  std::string said;                  // all output
  std::chrono::milliseconds back{};  // until hvdrun was gone
  std::chrono::milliseconds gone{};  // until nothing of the job was left on the hosts looked at
  std::vector<ProcessInfo> left;     // there, after the limit
};

class HostJob {
 public:
  using Clock = std::chrono::steady_clock;

  // Starts build/hvdrun on node1 with these words, and waits for `patience` until each rank has
  // said "ready". `within`: the words of what runs it there, env with more variables say.
  HostJob(const Cluster& cluster, std::vector<std::string> words, std::size_t ranks,
          std::vector<std::string> within = {},
          std::chrono::seconds patience = std::chrono::seconds(20));

  // A job that has not ended is killed: what runs it on node1 would leave hvdrun there, to be found
  // by the next job.
  ~HostJob();
  HostJob(const HostJob&) = delete;
  HostJob& operator=(const HostJob&) = delete;

  // Kills the process that fits (its name, or the begin of its command line), as soon as there is
  // one: who said "ready" may not yet be the program that it will be. False: none within 10 s.
  bool kill(const std::string& host, const std::string& who) const;
  // From now on everything is timed.
  void begin() { begin_ = Clock::now(); }
  std::string wait_for(const std::string& text, std::chrono::seconds limit, std::size_t times = 1) {
    return process_.wait_for_output(text, limit, times);
  }
  std::chrono::milliseconds passed() const {
    return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin_);
  }
  // Waits for hvdrun, and for these hosts to be free of the job, at the same time.
  HostJobEnd end(const std::vector<std::string>& hosts, std::chrono::milliseconds limit);

 private:
  const Cluster& cluster_;
  std::pair<std::string, std::string> marker_ = fresh_marker();
  Background process_;
  Clock::time_point begin_;
};

// A row of the table of failures, on stdout.
void print_row(const std::string& what, const HostJobEnd& end);

// That nothing is left, the exit code, and what was said; with such a row.
void check_end(const std::string& what, const HostJobEnd& end, int exit_code,
               const std::string& said);

bool contains(const std::string& text, const std::string& part);

}  // namespace hvdrun::test
