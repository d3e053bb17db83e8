#include "common/wire/hello.h"

namespace hvdrun {

std::optional<Refuse> check_hello(const Frame& frame, const std::string& job_id, Hello& hello) {
  if (frame.type != MessageType::hello || decode(frame.payload, hello) ||
      hello.magic != kProtocolMagic)
    return Refuse{Errc::bad_magic, "this is not the hvdrun protocol"};
  if (hello.version_min > kProtocolVersion || hello.version_max < kProtocolVersion)
    return Refuse{Errc::version_mismatch,
                  "this side speaks protocol version " + std::to_string(kProtocolVersion)};
  if (hello.job_id != job_id) return Refuse{Errc::wrong_job, "this connection is for another job"};
  return std::nullopt;
}

}  // namespace hvdrun
