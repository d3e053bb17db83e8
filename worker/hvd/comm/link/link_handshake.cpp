#include "worker/hvd/comm/link/link_handshake.h"

#include "common/net/hmac_sha256.h"

namespace hvdrun {
namespace {

constexpr std::string_view kMagic = "HVDDATA1";
constexpr std::size_t kNumbers = 4;  // epoch, generation, from, to
constexpr std::size_t kHelloBytes =
    kMagic.size() + kNumbers * sizeof(std::uint32_t) + LinkHandshake::kNonceBytes;
constexpr std::size_t kChallengeBytes = LinkHandshake::kNonceBytes + kSha256Bytes;

void put(std::string& to, std::uint32_t number) {
  for (unsigned shift = 0; shift < 32; shift += 8) to += static_cast<char>(number >> shift & 0xff);
}

std::uint32_t number_at(std::string_view bytes, std::size_t index) {
  std::uint32_t number = 0;
  for (std::size_t i = 0; i < 4; ++i)
    number |= std::uint32_t{static_cast<unsigned char>(bytes[kMagic.size() + 4 * index + i])}
              << 8 * i;
  return number;
}

}  // namespace

LinkHandshake LinkHandshake::connecting(std::string key, const LinkIdentity& own,
                                        std::uint32_t peer, std::string nonce) {
  LinkHandshake handshake(std::move(key), own, std::move(nonce), Step::challenge);
  handshake.peer_ = peer;
  handshake.hello_ = kMagic;
  for (const std::uint32_t number : {own.epoch, own.generation, own.rank, peer})
    put(handshake.hello_, number);
  handshake.hello_ += handshake.nonce_;
  handshake.output_ = handshake.hello_;
  return handshake;
}

LinkHandshake LinkHandshake::accepting(std::string key, const LinkIdentity& own,
                                       std::string nonce) {
  return LinkHandshake(std::move(key), own, std::move(nonce), Step::hello);
}

std::size_t LinkHandshake::wanted() const {
  if (state_ != State::busy) return 0;
  switch (waits_for_) {
    case Step::hello:
      return kHelloBytes;
    case Step::challenge:
      return kChallengeBytes;
    case Step::proof:
      return kSha256Bytes;
  }
  return 0;
}

std::string LinkHandshake::mac(std::string_view label, std::string_view nonce) const {
  std::string message(label);
  message += hello_;
  message += nonce;
  return hmac_sha256(key_, message);
}

void LinkHandshake::on_hello(std::string_view bytes) {
  const bool ours = bytes.substr(0, kMagic.size()) == kMagic && number_at(bytes, 0) == own_.epoch &&
                    number_at(bytes, 1) == own_.generation && number_at(bytes, 3) == own_.rank;
  if (!ours) {
    state_ = State::refused;
    return;
  }
  peer_ = number_at(bytes, 2);
  hello_ = bytes;
  output_ = nonce_ + mac("accept", nonce_);
  waits_for_ = Step::proof;
}

void LinkHandshake::feed(std::string_view bytes) {
  if (bytes.size() != wanted() || state_ != State::busy) {
    state_ = State::refused;
    return;
  }
  switch (waits_for_) {
    case Step::hello:
      return on_hello(bytes);
    case Step::challenge: {
      const std::string_view nonce = bytes.substr(0, kNonceBytes);
      const bool known = equal_in_constant_time(bytes.substr(kNonceBytes), mac("accept", nonce));
      state_ = known ? State::done : State::refused;
      if (known) output_ = mac("connect", nonce);
      return;
    }
    case Step::proof:
      state_ = equal_in_constant_time(bytes, mac("connect", nonce_)) ? State::done : State::refused;
      return;
  }
}

}  // namespace hvdrun
