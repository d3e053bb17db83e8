// A job's words about itself, for those who ask.
#include <chrono>
#include <utility>

#include "coordinator/job.h"

namespace hvdrun {

const char* name_of(JobState state) {
  switch (state) {
    case JobState::waiting:
      return "waiting";
    case JobState::running:
      return "running";
    case JobState::ending:
      return "ending";
    case JobState::ended:
      return "ended";
  }
  return "";
}

JobStatus Job::status(TimePoint now) const {
  JobStatus status;
  status.job_id = spec_.job_id;
  status.state = name_of(state_);
  status.age_ms = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(now - started_).count());
  status.argv = spec_.argv;
  status.size = membership_.size();
  for (const HostSlots& host : membership_.hosts()) status.hosts.push_back(host.name);
  for (const RankRecord& record : membership_.ranks()) {
    RankStatus rank;
    rank.state = name_of(record.state);
    rank.host = record.place.host;
    rank.trouble = causes_.trouble_of(record.place.rank);
    rank.probe.rank = record.place.rank;
    rank.probe.pid = record.pid;
    const auto number = membership_.rank_of(record.place.rank);
    rank.takes_part = number.has_value();
    rank.rank = number.value_or(record.place.rank);
    status.ranks.push_back(std::move(rank));
  }
  return status;
}

}  // namespace hvdrun
