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

// As hvd::init() and hvd::shutdown(). With `returns` the launcher is told that this is no goodbye.
void start_library_job(const hvd::InitOptions& options);
void end_library_job(bool returns) noexcept;

}  // namespace hvdrun
