// Horovod's store for the agents of a job, which answer their hosts' members themselves (worker/
// agent/horovod_mirror.h). An agent follows the scopes that its members read, and gets each value
// once: members poll for what is not there yet, and all of a host read the same.
//
// What is replaced or dropped is told before the request that did it is answered, and to each agent
// before any later answer to it. A member puts before it gets, so it never finds in its agent's
// copy what was gone when its round began. Copies themselves go by a window, since control must not
// wait behind them. Sans-I/O: frames in, frames out.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/error.h"
#include "common/wire/frame.h"
#include "common/wire/horovod_messages.h"
#include "coordinator/horovod/horovod_store.h"

namespace hvdrun {

class HorovodHub {
 public:
  struct Action {
    std::uint32_t host = 0;
    std::string frame;
    HorovodBytes rest;  // of the frame, the same for many hosts; may be none
  };

  // Hosts have numbers below `hosts`; frames are of `epoch`.
  HorovodHub(std::uint32_t epoch, std::size_t hosts, HorovodLimits limits = {},
             std::size_t window = limits::kHorovodWindow)
      : epoch_(epoch), window_(window), longest_(limits.key), store_(limits), hosts_(hosts) {}
  // All members of an elastic job wait for their places at once; agents have limits of their own.
  static HorovodLimits elastic_limits() { return {.waiters = limits::kMaxStoreWaiters}; }

  // There are so many hosts now.
  void grow(std::size_t hosts) { hosts_.resize(hosts); }
  // As HorovodStore's, for an epoch. What the agents have copies of is dropped.
  void assign(const std::vector<HorovodSlot>& members, std::uint32_t epoch,
              const HorovodStore::RanksByName* by_last_name = nullptr);
  // The process that came early as this rank is gone.
  void forget_early(std::uint32_t host, std::uint32_t rank);

  // Elastic programs: what members say of themselves besides.
  struct Said {
    enum class What : std::uint8_t {
      enters,   // hvd.elastic.run; `value` tells more
      at_door,  // it waits for its next place
    } what{};
    std::uint32_t host = 0;
    std::string member;  // HOST:LOCAL_RANK
    std::string value = {};
  };
  std::vector<Said> take_said() { return std::exchange(said_, {}); }
  // True: the member of this number on this host comes too early, and is answered after the next
  // assignment. Asked for each that comes to meet the others, and may do what it likes but for
  // this object. None: all come at the right time.
  using ComesEarly = std::function<bool(std::uint32_t host, std::uint32_t rank)>;
  void set_comes_early(ComesEarly comes_early) { comes_early_ = std::move(comes_early); }
  void wait_for_places() { store_.wait_for_places(); }
  // True when a frame of this type is for the hub.
  static bool takes(MessageType type);
  // A fault: the agent is not to be trusted any more.
  Errc agent_frame(std::uint32_t host, const Frame& frame);
  void agent_lost(std::uint32_t host);

  std::vector<Action> take_actions() { return std::exchange(actions_, {}); }
  const HorovodStore& store() const { return store_; }

 private:
  struct Follow {
    std::string scope;
    std::uint64_t sent = 0;  // stamp of the last value that was looked at
    bool caught_up = false;
    std::map<std::string, std::uint64_t> own;  // put by the host itself: key -> stamp
  };
  struct Host {
    std::map<std::uint64_t, Follow> follows;  // by the agent's number
    std::map<std::string, std::uint64_t, std::less<>> by_scope;
    std::set<std::uint64_t> behind;  // follows with values to send, or not caught up
    std::uint64_t served = 0;        // of these, the one that has had its turn
    std::uint64_t under_way = 0;     // horovod_cost of copies that the agent has not taken
  };
  using Followers = std::map<std::string, std::set<std::uint32_t>, std::less<>>;  // -> hosts

  Errc on_ask(std::uint32_t host, HorovodAsk message);
  void note(std::uint32_t host, const HorovodAsk& message);
  bool hold_early(std::uint32_t host, HorovodAsk& message);
  Errc on_follow(std::uint32_t host, HorovodFollow message);
  void unfollow(std::uint32_t host, std::uint64_t follow);
  std::uint64_t put(std::uint32_t host, HorovodAsk& message, int& status);
  void finish(const HorovodAsk& message);
  // To every agent that has a copy of the value with this stamp.
  void drop(const std::string& scope, const std::string& key, std::uint64_t stamp,
            const Host* but = nullptr);
  void drop_all(const std::string& scope);
  void send_some(std::uint32_t host);
  void send_copy(std::uint32_t host, std::uint64_t follow, const std::string& key,
                 const HorovodBytes& value);
  template <class Each>
  void for_each_follower(std::string_view scope, Each&& each);
  template <class M>
  void send(std::uint32_t host, const M& message) {
    actions_.push_back({host, encode_frame(message, epoch_), nullptr});
  }

  std::uint32_t epoch_;
  std::size_t window_;
  std::size_t longest_;
  HorovodStore store_;
  std::vector<Host> hosts_;
  Followers followers_;
  std::map<HorovodStore::Waiter, std::pair<std::uint32_t, std::uint64_t>>
      waiting_;  // host, request
  HorovodStore::Waiter next_waiter_ = 1;
  ComesEarly comes_early_;
  std::vector<std::pair<std::uint32_t, HorovodAsk>> early_;  // by host
  std::vector<Said> said_;
  std::vector<Action> actions_;
};

}  // namespace hvdrun
