// The messages of Horovod's store between an agent, which answers its host's members, and the
// coordinator, which has the store. An agent that follows a scope has a copy of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/wire/base_messages.h"

namespace hvdrun {

enum class HorovodVerb : std::uint8_t {
  get = 1,  // of rank_and_size alone; all else is answered from the copy
  put = 2,
  finish = 3  // DELETE
};

// Agent -> coordinator. `request` is the agent's number, never used twice.
struct HorovodAsk {
  static constexpr auto kType = MessageType::horovod_ask;
  std::uint64_t request = 0;
  HorovodVerb verb{};
  std::string scope;
  std::string key;
  std::string value;  // of a put
  template <class V>
  void visit(V& v) {
    v(request);
    v(verb);
    v(scope);
    v(key);
    v(value);
  }
};

struct HorovodReply {
  static constexpr auto kType = MessageType::horovod_reply;
  std::uint64_t request = 0;
  std::uint16_t status = 0;  // of HTTP
  // In answer to a put: the agent follows its scope under this number, and what it has put is in
  // its copy from here on. 0: it does not.
  std::uint64_t follow = 0;
  std::string value;  // of a get
  template <class V>
  void visit(V& v) {
    v(request);
    v(status);
    v(follow);
    v(value);
  }
};

// Agent -> coordinator: send what the scope has and will have. The number is the agent's, never
// used twice, and not 0.
struct HorovodFollow {
  static constexpr auto kType = MessageType::horovod_follow;
  std::uint64_t follow = 0;
  std::string scope;
  template <class V>
  void visit(V& v) {
    v(follow);
    v(scope);
  }
};

// Agent -> coordinator: no more of it.
struct HorovodUnfollow {
  static constexpr auto kType = MessageType::horovod_unfollow;
  std::uint64_t follow = 0;
  template <class V>
  void visit(V& v) {
    v(follow);
  }
};

// Coordinator -> agent: a key and its value.
struct HorovodCopy {
  static constexpr auto kType = MessageType::horovod_copy;
  std::uint64_t follow = 0;
  std::string key;
  std::string value;
  template <class V>
  void visit(V& v) {
    v(follow);
    v(key);
    v(value);
  }
};

// The beginning of a HorovodCopy, up to the bytes of its value.
struct HorovodCopyHead {
  std::uint64_t follow = 0;
  std::string key;
  std::uint32_t size = 0;  // of the value
  template <class V>
  void visit(V& v) {
    v(follow);
    v(key);
    v(size);
  }
};

// Coordinator -> agent: what was sent of this key, or (an empty key) of all, is no more.
struct HorovodDrop {
  static constexpr auto kType = MessageType::horovod_drop;
  std::uint64_t follow = 0;
  std::string key;
  template <class V>
  void visit(V& v) {
    v(follow);
    v(key);
  }
};

// Coordinator -> agent, once: all that the scope had has been sent. What is not in the copy is
// missing from now on.
struct HorovodCaughtUp {
  static constexpr auto kType = MessageType::horovod_caught_up;
  std::uint64_t follow = 0;
  template <class V>
  void visit(V& v) {
    v(follow);
  }
};

// Agent -> coordinator: so much of the copies has been taken (horovod_cost).
struct HorovodTaken {
  static constexpr auto kType = MessageType::horovod_taken;
  std::uint64_t bytes = 0;
  template <class V>
  void visit(V& v) {
    v(bytes);
  }
};

// An address at which a rank of a Horovod program is told of changes.
struct HorovodEndpoint {
  std::string address;  // IPv4
  std::uint16_t port = 0;
  template <class V>
  void visit(V& v) {
    v(address);
    v(port);
  }
};

// Coordinator -> agent: tell the slot's process that hosts have come or gone
// (common/horovod/hosts_notice.h), until it has taken it or the next epoch begins.
struct HorovodNotice {
  static constexpr auto kType = MessageType::horovod_notice;
  std::uint32_t slot = 0;
  std::uint32_t number = 0;  // greater than that of the last one
  std::vector<HorovodEndpoint> endpoints;
  std::string key;
  template <class V>
  void visit(V& v) {
    v(slot);
    v(number);
    v(endpoints);
    v(key);
  }
};

// The bytes that a key and its value count on their way, in either direction
// (limits::kHorovodWindow).
inline std::size_t horovod_cost(const std::string& key, std::size_t value) {
  constexpr std::size_t kFrame = 64;
  return kFrame + key.size() + value;
}

}  // namespace hvdrun
