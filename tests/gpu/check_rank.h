// One rank of gpu_check: what it runs, in a process of its own.
#pragma once

#include <string>

#include "worker/hvd/gpu/loader.h"

namespace hvdrun::test {

struct CheckRank {
  // conformance, kernels, public-api, abort-met, abort-not-met, peer, or kSuddenEnd and how
  std::string what;
  int rank = 0;
  int size = 1;
  std::string id_file;  // where rank 0 writes NCCL's id
};

// Prints its figures; throws what goes wrong.
void run_check_rank(const CheckRank& rank);
// By the file.
nccl::UniqueId shared_id(const CheckRank& own, const NcclLibrary& nccl);

}  // namespace hvdrun::test
