// The functions of <hvd/hvd.h> about the job, and this rank's place in it.
#include <hvd/hvd.h>

#include "worker/hvd/api/library_job.h"

namespace hvd {

void init(const InitOptions& options) { hvdrun::start_library_job(options); }

void shutdown() noexcept { hvdrun::end_library_job(); }

bool is_initialized() noexcept { return hvdrun::current_job() != nullptr; }

int rank() { return hvdrun::library_job().place().rank; }
int size() { return hvdrun::library_job().place().size; }
int local_rank() { return hvdrun::library_job().place().local_rank; }
int local_size() { return hvdrun::library_job().place().local_size; }
int cross_rank() { return hvdrun::library_job().place().cross_rank; }
int cross_size() { return hvdrun::library_job().place().cross_size; }
bool is_homogeneous() { return hvdrun::library_job().is_homogeneous(); }
int gpu() { return hvdrun::library_job().gpu(); }
int nccl_version() { return hvdrun::usable_nccl_version(hvdrun::process_environment); }

}  // namespace hvd
