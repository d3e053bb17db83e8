// Results of CUDA and NCCL as words and as hvd::Error.
#pragma once

#include <string>
#include <string_view>

#include <hvd/hvd.h>

#include "worker/hvd/gpu/cuda_api.h"
#include "worker/hvd/gpu/nccl_api.h"

namespace hvdrun {

// Without line breaks and bytes that are no text: what another library says goes into our lines.
std::string one_line(std::string_view text);

// "CUDA_ERROR_OUT_OF_MEMORY (out of memory)"
std::string cuda_error_text(const cuda::Api& api, cuda::Result result);

// "remote process exited or there was a network error: net.cc:301 peer closed the connection":
// what the result means, and NCCL's last error text where it has one. The text is the process's,
// not the communicator's: with several at work it may be another one's.
std::string nccl_error_text(const nccl::Api& api, nccl::Result result, nccl::Comm comm);

// peer_lost for what is another rank's doing, unavailable for the machine's, internal otherwise.
hvd::ErrorCode code_of(nccl::Result result);

// Throws Error(unavailable): "GPU 1: cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (out of memory)".
void check_cuda(const cuda::Api& api, cuda::Result result, std::string_view what);

}  // namespace hvdrun
