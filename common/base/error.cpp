#include "common/base/error.h"

namespace hvdrun {
namespace {

class Category final : public std::error_category {
 public:
  const char* name() const noexcept override { return "hvdrun"; }
  std::string message(int value) const override {
    switch (static_cast<Errc>(value)) {
      case Errc::ok:
        return "success";
      case Errc::bad_magic:
        return "the peer does not speak the hvdrun protocol";
      case Errc::version_mismatch:
        return "no protocol version in common";
      case Errc::frame_too_large:
        return "a frame over the size limit";
      case Errc::malformed:
        return "a message that does not decode";
      case Errc::limit_exceeded:
        return "a length or count over its limit";
      case Errc::unexpected_message:
        return "a message at the wrong moment";
      case Errc::wrong_epoch:
        return "a message of another epoch";
      case Errc::wrong_job:
        return "the peer belongs to another job";
      case Errc::not_found:
        return "no such key";
      case Errc::timeout:
        return "the deadline passed";
      case Errc::peer_lost:
        return "a peer is gone";
      case Errc::queue_overflow:
        return "the peer does not read what is sent to it";
      case Errc::mismatch:
        return "the ranks disagree about an operation";
      case Errc::aborted:
        return "aborted";
      case Errc::closed:
        return "the other side closed the connection";
      case Errc::auth_failed:
        return "wrong key or no key";
    }
    return "unknown error " + std::to_string(value);
  }
};

}  // namespace

const std::error_category& hvdrun_category() noexcept {
  static const Category category;
  return category;
}

std::error_code make_error_code(Errc value) noexcept {
  return {static_cast<int>(value), hvdrun_category()};
}

}  // namespace hvdrun
