// The promises of <hvd/hvd.h> on GPUs, on a real one.
#pragma once

namespace hvdrun::test {

// As a rank of the job that this process belongs to, or alone: gpu_check does the latter, `hvdrun
// -np N gpu_check --public-api` the former. Prints its figures; throws what goes wrong.
void run_public_api();

}  // namespace hvdrun::test
