// Names that are this machine's.
#pragma once

#include <chrono>
#include <set>
#include <string>
#include <vector>

namespace hvdrun {

enum class KnownName { here, elsewhere, to_look_up };

// The names of this machine that need no look-up.
class OwnNames {
 public:
  explicit OwnNames(std::string hostname);
  // Knows localhost, the host name and addresses, which are this machine's or not. Case does not
  // matter.
  KnownName find(const std::string& name) const;

 private:
  std::string hostname_;
  std::set<std::string> addresses_;
};

// For each name whether it resolves to an address of this machine. Whatever resolvers answer, this
// takes no longer than `limit`; a name without an answer by then is another's. For a process with
// one thread: a child asks.
std::vector<bool> look_up_own_names(const std::vector<std::string>& names,
                                    std::chrono::milliseconds limit);

// The name of the effective user; empty: the user has none.
std::string own_user_name();

}  // namespace hvdrun
