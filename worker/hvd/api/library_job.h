// The one job of this process: between hvd::init() and hvd::shutdown(). All functions from any
// thread.
#pragma once

#include <hvd/hvd.h>

#include "worker/hvd/api/worker_job.h"

namespace hvdrun {

// Throws Error(not_initialized), with the reason why there is none.
WorkerJob& library_job();
// Null: there is none.
WorkerJob* current_job() noexcept;
// For a collective: as library_job(). Throws Error(invalid_argument) in a process that is new in a
// running elastic job and has not entered it: the others are in elastic::run already.
WorkerJob& collective_job();
// hvd::elastic::enter()
void enter_library_job(const std::string& whole_layout);

// As hvd::init() and hvd::shutdown().
void start_library_job(const hvd::InitOptions& options);
void end_library_job() noexcept;
// Ends it to begin another one: the launcher is told that this is no goodbye. As
// require_usable_gpu().
void leave_library_job() noexcept;
// WorkerJob::leave_gpu(). A process that cannot go on ends here (exit_code::kUnusable), and its
// launcher starts another.
void require_usable_gpu(const hvd::Error* reason) noexcept;

}  // namespace hvdrun
