// --isolation: a second net below guard and agent, for the case that both are killed at the same
// moment. The first net, nested sub-reapers, needs no rights and is always there.
#pragma once

#include <string>
#include <sys/types.h>

#include "common/base/unique_fd.h"
#include "common/wire/base_messages.h"

namespace hvdrun {

class IsolationNet {
 public:
  // In the guard, before the agent is forked. Throws std::runtime_error that says what to do
  // instead when this user or this machine cannot have it.
  IsolationNet(Isolation isolation, const std::string& name);
  // In the guard, at the end: kills what is still inside and removes the net.
  ~IsolationNet();
  IsolationNet(const IsolationNet&) = delete;
  IsolationNet& operator=(const IsolationNet&) = delete;

  // In the agent, first thing. Throws like the constructor.
  void enter();

 private:
  void make_cgroup(const std::string& name);
  void make_pid_namespace();

  Isolation isolation_;
  pid_t owner_;         // the guard: the agent's copy of this object removes nothing
  std::string cgroup_;  // its folder
};

}  // namespace hvdrun
