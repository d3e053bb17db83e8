// The key-value store that Horovod's Gloo members find each other with: scopes of keys, in
// Horovod's own dialect (docs/horovod.md). Sans-I/O: a request in, what to answer out. Gets that
// wait are known by what the caller calls them.
//
// A get of a missing key is answered at once; whoever serves members may hold those that they poll
// for (common/horovod/held_gets.h). Only rank_and_size waits, which a member asks for after a reset
// and which is answered once there is an assignment of ranks.
//
// Values have stamps in the order in which they came. So whoever has a copy of a scope knows by one
// number what it has not got yet (horovod_hub.h).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/base/limits.h"
#include "common/horovod/horovod_dialect.h"
#include "common/host/topology.h"
#include "common/wire/job_messages.h"

namespace hvdrun {

inline constexpr std::string_view kHorovodGlobal = "global";  // the scope of the whole job
// The number of the member whose first key of a meeting this is; none: it is another key.
std::optional<std::uint32_t> arriving_member(std::string_view key);
// The places of a job's ranks as the table has them.
std::vector<HorovodSlot> members_of(const RankTable& ranks);

struct HorovodLimits {
  std::size_t key = limits::kMaxStoreKey;      // bytes of a scope, and of a key
  std::size_t value = limits::kMaxStoreValue;  // bytes
  std::size_t bytes = limits::kMaxStoreBytes;  // of all keys and values, each with its scope's name
  std::size_t keys = limits::kMaxHorovodKeys;
  std::size_t waiters = limits::kMaxHorovodWaiters;
};

class HorovodStore {
 public:
  using Waiter = std::uint64_t;
  using Value = HorovodBytes;
  using Answer = HorovodAnswer;  // status 0: the get waits; its answer comes out of assign()

  struct Late {
    Waiter waiter = 0;
    Answer answer;
  };

  explicit HorovodStore(HorovodLimits limits = {}) : limits_(limits) {}

  // A new assignment of ranks, by rank: everything stored before is dropped, because it is about
  // members that are gone. Answers the gets that wait for it.
  // `by_last_name`: the members' ranks by what they called themselves before, HOST:LOCAL_RANK.
  using RanksByName = std::map<std::string, std::uint32_t, std::less<>>;
  std::vector<Late> assign(const std::vector<HorovodSlot>& members,
                           const RanksByName* by_last_name = nullptr);
  // From now on gets of a place wait for the next assignment, also where there is one already.
  void wait_for_places() { waits_ = true; }
  // Reads a request, as read_horovod_request().
  int read(HttpRequest http, HorovodRequest& request) const;
  // One request. `waiter` is remembered only when the get waits.
  Answer answer(HorovodRequest request, Waiter waiter);

  struct Entry {
    Value value;
    std::uint64_t stamp = 0;  // when it came: 1, 2, ... in the whole store
  };
  // The entry, or nullptr.
  const Entry* find(std::string_view scope, const std::string& key) const;
  // The first of a scope that came after `stamp`, and its key; nullptr: no other.
  const Entry* next_after(std::string_view scope, std::uint64_t stamp, std::string& key) const;
  // The number of times that all members of a scope have finished and emptied it.
  std::uint64_t rounds() const { return rounds_; }

  // The number of times that all members of the whole job have met, under all assignments.
  std::uint64_t meetings() const { return meetings_; }
  // True when this member of the whole job has come to the meeting that is under way.
  bool has_come(std::uint32_t rank) const;

  // The members of the whole job once the first has come and until the last has: who is there, who
  // is not. Otherwise both are empty.
  struct Gathering {
    std::vector<std::uint32_t> present;
    std::vector<std::uint32_t> missing;
  };
  Gathering gathering() const;
  // Goes up with every change of it.
  std::uint64_t gathering_version() const { return gathering_version_; }
  // The waiting get's connection is gone.
  void forget(Waiter waiter) { waiting_.erase(waiter); }

  std::size_t bytes() const { return bytes_; }
  std::size_t keys() const { return keys_; }
  std::size_t waiting() const { return waiting_.size(); }

 private:
  struct Scope {
    std::unordered_map<std::string, Entry> values;
    std::map<std::uint64_t, const std::string*> order;  // stamp -> key in `values`
    // The members that have finished, by their number, where a scope's members are known. It is
    // emptied when all have, so that the next round of the same members finds nothing of this one.
    std::vector<bool> finished;
    std::size_t finished_count = 0;
    std::vector<bool> present;  // who has come
  };
  using Scopes = std::map<std::string, Scope, std::less<>>;

  Answer get(std::string_view scope, const std::string& key) const;
  int put(std::string_view scope, const std::string& key, std::string value);
  void note_arrival(Scope& scope, std::string_view key);
  void finish(std::string_view scope, const std::string& key);
  Answer rank_and_size(const std::string& key) const;

  HorovodLimits limits_;
  Scopes scopes_;
  bool assigned_ = false;
  bool waits_ = false;
  std::unordered_map<std::string, Value> places_;  // "host:local rank" -> the six numbers
  std::map<Waiter, std::string> waiting_;          // -> key
  std::size_t bytes_ = 0;
  std::size_t keys_ = 0;
  std::uint64_t gathering_version_ = 0;
  std::uint64_t last_stamp_ = 0;
  std::uint64_t rounds_ = 0;
  std::uint64_t meetings_ = 0;
};

}  // namespace hvdrun
