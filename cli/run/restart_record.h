// The record that a start of a job hands to the next one. That is another hvdrun in the same
// process, by exec: coordinator and guards are forked, and inherit what an io_context has left.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "cli/run/restart_policy.h"
#include "cli/text/text_file.h"

namespace hvdrun {

struct RestartRecord {
  std::string job_id;          // empty: the job starts for the first time
  std::uint64_t began_ms = 0;  // when it did, of the steady clock
  std::uint32_t first_np = 0;  // ranks of that start
  RestartHistory history;
  std::vector<std::string> lost;  // hosts that are left out, by name
  std::vector<PipeText> texts;
  std::uint32_t exit_code = 0;  // of the last failure
  bool output_lost = false;     // some of an earlier start's output could not be written
  std::uint32_t events_fd = 0;  // a pipe of --events, which its reader must not see the end of
  template <class V>
  void visit(V& v) {
    v(job_id);
    v(began_ms);
    v(first_np);
    v(history);
    v(lost);
    v(texts);
    v(exit_code);
    v(output_lost);
    v(events_fd);
  }
};

// That of the start before, if there was one; once, and before the environment is looked at. What
// was read from pipes then is read again from it. Throws std::runtime_error for one that is
// damaged.
std::optional<RestartRecord> take_restart_record();

// Opens the pipe of --events once more, if it is one, and keeps it for the next start.
void keep_events_pipe(const std::string& path, RestartRecord& record);

// Puts hvdrun with the same arguments in the place of this process. Returns only when that is
// impossible.
std::error_code start_again(RestartRecord record);

}  // namespace hvdrun
