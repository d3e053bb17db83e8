// The job's key-value store, with gets that wait until somebody puts the key. Sans-I/O: a waiting
// get is known by what the caller calls it, and its answer comes out of a later put or expire.
//
// Keys are never deleted within an epoch; a new epoch starts with an empty store.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/base/error.h"
#include "common/base/time_point.h"

namespace hvdrun {

class Store {
 public:
  struct Waiter {
    std::uint32_t host = 0;
    std::uint64_t request = 0;
  };
  struct Answer {
    Waiter waiter;
    Errc code{};
    std::string value;
  };

  // Stores or replaces. limit_exceeded when key, value or the whole store would be too large.
  Errc put(const std::string& key, std::string value, std::vector<Answer>& answers);
  // Answers at once when the key is there, or the wait is over before it began.
  void get(const std::string& key, Waiter waiter, TimePoint now, std::chrono::milliseconds wait,
           std::vector<Answer>& answers);
  // Answers `timeout` to the gets whose deadline has passed.
  void expire(TimePoint now, std::vector<Answer>& answers);
  std::optional<TimePoint> next_deadline() const;
  // Forgets the gets of a host that is gone.
  void forget_host(std::uint32_t host);
  // Answers wrong_epoch to every waiting get and empties the store.
  void reset(std::vector<Answer>& answers);

  std::size_t bytes() const { return bytes_; }
  std::size_t waiting() const { return waiting_.size(); }

 private:
  struct Pending {
    std::string key;
    Waiter waiter;
  };
  using Pendings = std::multimap<TimePoint, Pending>;

  std::unordered_map<std::string, std::string> values_;
  Pendings waiting_;  // by deadline
  std::unordered_multimap<std::string, Pendings::iterator> waiting_for_;
  std::size_t bytes_ = 0;

  void erase_index(Pendings::iterator pending);
};

}  // namespace hvdrun
