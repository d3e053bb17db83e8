// The proof by which both ends of a data connection show that they are ranks of the same job: both
// know the job's data key, and neither sends it. Sans-I/O.
//
//   connecting rank   hello      magic, epoch, generation, both ranks, a nonce
//   accepting rank    challenge  a nonce, HMAC(key, "accept", hello, nonce)
//   connecting rank   proof      HMAC(key, "connect", hello, nonce)
//
// Everything after it is plain: whoever can change packets between the hosts can change data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace hvdrun {

struct LinkIdentity {
  std::uint32_t epoch = 0;
  std::uint32_t generation = 0;
  std::uint32_t rank = 0;
};

class LinkHandshake {
 public:
  enum class State { busy, done, refused };

  // `nonce` is kNonceBytes of noise.
  static LinkHandshake connecting(std::string key, const LinkIdentity& own, std::uint32_t peer,
                                  std::string nonce);
  static LinkHandshake accepting(std::string key, const LinkIdentity& own, std::string nonce);

  // So many bytes are to be read next and fed, no more: data follows them.
  std::size_t wanted() const;
  // Exactly so many.
  void feed(std::string_view bytes);
  std::string take_output() { return std::exchange(output_, {}); }

  State state() const { return state_; }
  // Known once the state is done.
  std::uint32_t peer() const { return peer_; }

  static constexpr std::size_t kNonceBytes = 16;

 private:
  enum class Step { hello, challenge, proof };

  LinkHandshake(std::string key, const LinkIdentity& own, std::string nonce, Step waits_for)
      : key_(std::move(key)), own_(own), nonce_(std::move(nonce)), waits_for_(waits_for) {}
  void on_hello(std::string_view bytes);
  std::string mac(std::string_view label, std::string_view nonce) const;

  std::string key_;
  LinkIdentity own_;
  std::string nonce_;
  Step waits_for_;
  State state_ = State::busy;
  std::uint32_t peer_ = 0;
  std::string hello_;
  std::string output_;
};

}  // namespace hvdrun
