// Answers to those who ask how the job is doing: the hosts are asked what their processes do, and
// whoever has not answered after a moment is left out. Sans-I/O.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "common/wire/status_messages.h"
#include "coordinator/store.h"

namespace hvdrun {

class StatusBoard {
 public:
  // A finished answer and where it goes: the asker is the number that ask() was given.
  struct Answer {
    std::uint64_t asker = 0;
    std::vector<RankProbe> probes;
  };

  // Somebody asks; the hosts will be probed under the number that is returned. No hosts: the answer
  // is ready at once.
  std::uint64_t ask(std::uint64_t asker, std::set<std::uint32_t> hosts, TimePoint now);
  // malformed: a text in it is longer than an agent makes them.
  Errc answered(std::uint32_t host, const RankProbes& message);
  // It will not answer any more.
  void forget_host(std::uint32_t host);

  // Those that are complete or out of time.
  std::vector<Answer> take_ready(TimePoint now);
  std::optional<TimePoint> next_deadline() const;

 private:
  struct Question {
    std::uint64_t request = 0;
    std::uint64_t asker = 0;
    std::set<std::uint32_t> waiting;  // hosts
    TimePoint deadline;
    std::vector<RankProbe> probes;
  };

  std::vector<Question> questions_;
  std::uint64_t next_request_ = 1;
};

// The status with what the hosts said put in.
void add_probes(JobStatus& status, const std::vector<RankProbe>& probes);
// As much of it as one message holds: of a job with very many ranks the first ones, with few words
// of their errors.
void cut_to_limits(JobStatus& status);

}  // namespace hvdrun
