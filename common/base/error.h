// The errors of the project's own protocols as std::error_code values. Text from the operating
// system stays in std::system_category().
#pragma once

#include <cstdint>
#include <string>
#include <system_error>

namespace hvdrun {

// The numbers are on the wire (docs/protocol.md): never renumber, only append.
enum class Errc : std::uint16_t {
  ok = 0,
  bad_magic = 1,           // the peer does not speak this protocol
  version_mismatch = 2,    // no protocol version in common
  frame_too_large = 3,     // a frame announced more than limits::kMaxFramePayload
  malformed = 4,           // a payload that does not decode to its message
  limit_exceeded = 5,      // a length or count over its limit
  unexpected_message = 6,  // a known message at the wrong moment
  wrong_epoch = 7,         // a message of an epoch that is over
  wrong_job = 8,           // the peer belongs to another job
  not_found = 9,           // no such key
  timeout = 10,            // the deadline passed
  peer_lost = 11,          // a rank, host or process that was needed is gone
  queue_overflow = 12,     // the peer does not read and its queue is full
  mismatch = 13,           // ranks disagree about an operation
  aborted = 14,            // the communicator or the job was ended
  closed = 15,             // the other side closed the connection
  auth_failed = 16,        // wrong key or no key
};

const std::error_category& hvdrun_category() noexcept;
std::error_code make_error_code(Errc value) noexcept;

}  // namespace hvdrun

template <>
struct std::is_error_code_enum<hvdrun::Errc> : std::true_type {};
