#include "worker/hvd/gpu/gpu_error.h"

namespace hvdrun {

std::string one_line(std::string_view text) {
  std::string line;
  for (const char c : text) {
    const bool printable = c >= ' ' && c != '\x7f';
    if (printable)
      line += c;
    else if (!line.empty() && line.back() != ' ')
      line += ' ';
  }
  while (line.ends_with(' ')) line.pop_back();
  return line;
}

std::string cuda_error_text(const cuda::Api& api, cuda::Result result) {
  const char* name = nullptr;
  const char* text = nullptr;
  std::string line = api.get_error_name(result, &name) == cuda::kSuccess && name != nullptr
                         ? name
                         : "error " + std::to_string(result);
  if (api.get_error_string(result, &text) == cuda::kSuccess && text != nullptr)
    line += " (" + one_line(text) + ")";
  return line;
}

std::string nccl_error_text(const nccl::Api& api, nccl::Result result, nccl::Comm comm) {
  const char* const meaning = api.get_error_string(result);
  const char* const last = api.get_last_error(comm);
  std::string line = meaning != nullptr ? one_line(meaning) : "error " + std::to_string(result);
  const std::string detail = last != nullptr ? one_line(last) : "";
  if (!detail.empty()) line += ": " + detail;
  return line;
}

hvd::ErrorCode code_of(nccl::Result result) {
  switch (result) {
    case nccl::remote_error:
      return hvd::ErrorCode::peer_lost;
    case nccl::system_error:
    case nccl::unhandled_cuda_error:
      return hvd::ErrorCode::unavailable;
    default:
      return hvd::ErrorCode::internal;
  }
}

void check_cuda(const cuda::Api& api, cuda::Result result, std::string_view what) {
  if (result == cuda::kSuccess) return;
  throw hvd::Error(hvd::ErrorCode::unavailable,
                   std::string(what) + ": " + cuda_error_text(api, result));
}

}  // namespace hvdrun
