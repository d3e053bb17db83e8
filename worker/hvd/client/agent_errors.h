// Failures that the launcher and a rank tell each other, as errors of the library.
#pragma once

#include <string>

#include <hvd/hvd.h>

#include "common/wire/messages.h"

namespace hvdrun {

// For a collective that failed.
Errc code_of(const hvd::Error& error);

// The error of a request that was refused.
hvd::Error reply_error(Errc code, const std::string& what);
// Operations that need such a rank fail with it.
hvd::Error peer_lost_error(const PeerLost& lost);
hvd::Error gave_up_error(const PeerGaveUp& peer);

}  // namespace hvdrun
