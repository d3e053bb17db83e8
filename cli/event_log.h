// --events FILE: every change of state of the job and its ranks as a line of JSON, written when it
// happens. docs/events.md has the schema.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/messages.h"
#include "common/topology.h"
#include "common/unique_fd.h"

namespace hvdrun {

class EventLog {
 public:
  // Writes nothing.
  EventLog() = default;
  // Appends to the file. Throws std::system_error that names it.
  EventLog(const std::string& path, std::string job_id);

  bool is_open() const { return static_cast<bool>(file_); }
  void job_started(std::uint32_t size, const std::vector<std::string>& hosts,
                   const std::vector<std::string>& argv);
  void rank(const RankEvent& event, const std::string& host);
  // `hosts` are the names, by index.
  void stall(const StallWarning& warning, const std::vector<HostSlots>& hosts);
  void job_ended(const JobEnded& verdict);
  // errno of the first write that failed, once; 0 otherwise. Nothing is written after it.
  int take_fault();

 private:
  void write(const std::string& event, const std::string& fields);

  UniqueFd file_;
  std::string job_id_;
  int fault_ = 0;
};

}  // namespace hvdrun
