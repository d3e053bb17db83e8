// Gets of Horovod's members for keys that are not there yet. A member that waits for another asks
// for its key every 10 ms; held here, it is answered as soon as the key comes. Sans-I/O.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/horovod/horovod_dialect.h"

namespace hvdrun {

class HeldGets {
 public:
  using Waiter = HorovodBackend::Waiter;

  explicit HeldGets(std::size_t limit) : limit_(limit) {}

  // False: the answer is "not there". So many are held already, or members ask for such a key just
  // once and go on without it.
  bool hold(Waiter waiter, std::string_view scope, std::string_view key);
  // The key has come: who waits for it, who is held no more.
  std::vector<Waiter> take(std::string_view scope, std::string_view key);
  // True when it was held.
  bool forget(Waiter waiter);

 private:
  std::size_t limit_;
  std::unordered_map<Waiter, std::string> keys_;  // "scope/key"; a scope has no '/'
  std::unordered_multimap<std::string, Waiter> waiters_;
};

}  // namespace hvdrun
