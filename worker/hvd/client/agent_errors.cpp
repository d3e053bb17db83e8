#include "worker/hvd/client/agent_errors.h"

#include "common/base/error.h"

namespace hvdrun {

using hvd::ErrorCode;

Errc code_of(const hvd::Error& error) {
  switch (error.code()) {
    case ErrorCode::peer_lost:
      return Errc::peer_lost;
    case ErrorCode::timeout:
      return Errc::timeout;
    case ErrorCode::mismatch:
      return Errc::mismatch;
    default:
      return Errc::aborted;
  }
}

hvd::Error reply_error(Errc code, const std::string& what) {
  const ErrorCode error = code == Errc::timeout     ? ErrorCode::timeout
                          : code == Errc::peer_lost ? ErrorCode::peer_lost
                                                    : ErrorCode::unavailable;
  return {error, what + ": " + make_error_code(code).message()};
}

hvd::Error peer_lost_error(const PeerLost& lost) {
  const std::string who = "rank " + std::to_string(lost.rank);
  if (lost.clean) return {ErrorCode::peer_lost, who + " called hvd::shutdown()"};
  return {ErrorCode::peer_lost,
          who + " is lost" + (lost.reason.empty() ? std::string() : ": " + lost.reason)};
}

hvd::Error gave_up_error(const PeerGaveUp& peer) {
  return {peer.code == Errc::timeout ? ErrorCode::timeout : ErrorCode::internal,
          "rank " + std::to_string(peer.rank) + " gave up: " + peer.text};
}

}  // namespace hvdrun
