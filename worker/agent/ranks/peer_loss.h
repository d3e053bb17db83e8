// Programs that do not use libhvd cannot say that they fail only because another rank is gone.
// Their libraries write it to stderr, though, and a rank that fails after such a line is not the
// first suspect. Sans-I/O.
#pragma once

#include <string_view>

#include "common/base/error.h"

namespace hvdrun {

struct PeerLossLine {
  std::string_view line;        // without its line end; empty: there is none
  Errc code = Errc::peer_lost;  // timeout: the peer never came to meet it
};

// The last line of `text`, which has whole lines, that says that a peer is gone: by Horovod, Gloo
// (PyTorch's too) or NCCL. Or by Horovod that one did not come.
PeerLossLine find_peer_loss(std::string_view text);

}  // namespace hvdrun
