// The functions of <hvd/elastic_run.h> that ask the launcher's job.
#include <hvd/elastic_run.h>

#include "worker/hvd/api/library_job.h"

namespace hvd::elastic {

bool is_elastic() noexcept {
  const hvdrun::WorkerJob* const job = hvdrun::current_job();
  return job != nullptr && job->is_elastic();
}

void enter(const std::string& layout) { hvdrun::enter_library_job(layout); }

bool meeting_wanted() noexcept {
  const hvdrun::WorkerJob* const job = hvdrun::current_job();
  return job != nullptr && job->meeting_wanted();
}

void require_gpu(const Error& reason) { hvdrun::require_usable_gpu(&reason); }

void meet_again(const InitOptions& options) {
  hvdrun::leave_library_job();
  hvdrun::start_library_job(options);
}

}  // namespace hvd::elastic
