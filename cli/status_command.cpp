#include "cli/status_command.h"

#include <cstdio>
#include <string>

#include "cli/job_connection.h"
#include "cli/output/own_output.h"
#include "cli/output/status_text.h"
#include "common/base/exit_code.h"
#include "common/base/printable.h"

namespace hvdrun {

int run_ps() {
  std::string text;
  for (const std::string& job : running_jobs()) {
    const auto status = JobConnection(job).ask<JobStatus>(StatusQuery{false, 0});
    if (!status) continue;  // it has ended meanwhile
    char row[128];
    if (text.empty()) {
      std::snprintf(row, sizeof row, "%-10s %-8s %-6s %-10s %-8s ", "JOB", "PID", "RANKS", "AGE",
                    "STATE");
      text = row + std::string("PROGRAM\n");
    }
    std::string program;
    for (const std::string& word : status->argv) program += (program.empty() ? "" : " ") + word;
    std::snprintf(row, sizeof row, "%-10s %-8u %-6u %-10s %-8s ", job.substr(0, 8).c_str(),
                  status->driver_pid, status->size, age_text(status->age_ms).c_str(),
                  status->state.c_str());
    text += row + printable(program) + "\n";
  }
  print(text.empty() ? "no jobs of this user are running here\n" : text);
  return exit_code::kOk;
}

int run_status(const std::string& job) {
  const std::string found = find_job(job);
  const auto status = JobConnection(found).ask<JobStatus>(StatusQuery{true, 0});
  if (!status) {
    std::fprintf(stderr, "hvdrun: job %s did not answer\n", found.substr(0, 8).c_str());
    return exit_code::kTryAgain;
  }
  std::string text;
  for (const std::string& line : describe_status(*status, {})) text += line + "\n";
  print(text);
  return exit_code::kOk;
}

}  // namespace hvdrun
