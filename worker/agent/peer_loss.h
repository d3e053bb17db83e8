// Programs that do not use libhvd cannot say that they fail only because another rank is gone.
// Their libraries write it to stderr, though, and a rank that fails after such a line is not the
// first suspect. Sans-I/O.
#pragma once

#include <string_view>

namespace hvdrun {

// The last line of `text` (whole lines) in which Horovod, Gloo (PyTorch's too) or NCCL says that a
// peer is gone, without its line end; empty when there is none.
std::string_view peer_loss_line(std::string_view text);

}  // namespace hvdrun
