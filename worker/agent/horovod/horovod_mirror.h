// Horovod's store as the members of one host see it: gets are answered from a copy of the scopes
// that they ask for, which the coordinator keeps up to date (coordinator/horovod/horovod_hub.h); a
// put or a DELETE is answered when the coordinator has answered it. So a value travels once to a
// host however many ask for it, and what is not there yet is waited for here. Sans-I/O.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/base/error.h"
#include "common/base/limits.h"
#include "common/horovod/held_gets.h"
#include "common/horovod/horovod_dialect.h"
#include "common/wire/frame.h"
#include "common/wire/horovod_messages.h"

namespace hvdrun {

struct HorovodMirrorLimits {
  std::size_t key = limits::kMaxStoreKey;  // bytes of a scope, and of a key
  std::size_t follows =
      limits::kMaxHorovodFollows;                // scopes; then the one not used for longest goes
  std::size_t asked = limits::kMaxHorovodAsked;  // requests that wait
  std::size_t held = limits::kMaxHttpHeld;       // bytes of the values among them
  std::size_t window = limits::kHorovodWindow;
};

class HorovodMirror {
 public:
  using Waiter = HorovodBackend::Waiter;
  struct Late {
    Waiter waiter = 0;
    HorovodAnswer answer;
  };

  // Frames are of `epoch`.
  explicit HorovodMirror(std::uint32_t epoch, HorovodMirrorLimits limits = {})
      : epoch_(epoch), limits_(limits) {}

  // As a HorovodBackend's: status 0, and the answer comes by take_late(). Who waits may go at any
  // time: what was asked goes on its way, and the answer is nobody's.
  HorovodAnswer answer(HttpRequest http, Waiter waiter);
  HorovodAnswer overdue(Waiter waiter);
  void forget(Waiter waiter) { held_gets_.forget(waiter); }

  static bool takes(MessageType type);
  // The coordinator's words. A fault: it is not to be trusted any more.
  Errc coordinator_frame(const Frame& frame);

  // For the coordinator, in this order.
  std::vector<std::string> take_frames() { return std::exchange(frames_, {}); }
  std::vector<Late> take_late() { return std::exchange(late_, {}); }

  std::size_t follows() const { return scopes_.size(); }

 private:
  struct Scope {
    std::string name;
    std::unordered_map<std::string, HorovodBytes> values;
    bool caught_up = false;                               // what is not among them is missing
    std::vector<std::pair<Waiter, std::string>> waiting;  // gets, until it has caught up
    std::uint64_t last_use = 0;
  };
  struct Asked {
    Waiter waiter = 0;
    HorovodVerb verb{};
    std::string key;
    HorovodBytes value;    // of a put
    std::size_t cost = 0;  // horovod_cost
  };

  HorovodAnswer look_up(HorovodRequest request, Waiter waiter);
  void set(Scope& scope, std::string key, HorovodBytes value);
  Scope* follow(const std::string& scope);
  bool unfollow_oldest();
  HorovodAnswer ask(HorovodRequest request, Waiter waiter);
  void send_some();
  Errc on_reply(HorovodReply message);
  void on_copy(HorovodCopy message);
  void on_caught_up(std::uint64_t number);
  template <class M>
  void send(const M& message) {
    frames_.push_back(encode_frame(message, epoch_));
  }

  std::uint32_t epoch_;
  HorovodMirrorLimits limits_;
  std::unordered_map<std::uint64_t, Scope> scopes_;         // by the number that we follow it under
  std::unordered_map<std::string, std::uint64_t> numbers_;  // of a scope
  std::uint64_t next_follow_ = 1;
  std::uint64_t uses_ = 0;
  std::size_t gets_waiting_ = 0;
  HeldGets held_gets_{limits::kMaxHorovodHeld};
  std::deque<std::pair<HorovodRequest, Waiter>> queue_;  // until there is room in the window
  std::map<std::uint64_t, Asked> asked_;                 // by request number
  std::uint64_t next_request_ = 1;
  std::size_t held_ = 0;       // bytes of values in queue_ and asked_
  std::size_t under_way_ = 0;  // horovod_cost of asked_
  std::uint64_t owed_ = 0;     // taken of the copies and not told yet
  std::vector<std::string> frames_;
  std::vector<Late> late_;
};

}  // namespace hvdrun
