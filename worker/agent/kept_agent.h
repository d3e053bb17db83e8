// The agents that are kept in a user's cache folder, under their hashes
// (cli/openers/start_agent.sh): who runs as one says so, and those that nobody has used for long
// go. Hosts may share the folder, and jobs begin and end at any moment.
#pragma once

#include <chrono>
#include <string>
#include <sys/types.h>

namespace hvdrun {

// For so long after somebody has touched it last.
inline constexpr std::chrono::hours kKeepAgent{30 * 24};
inline constexpr std::chrono::hours kTouchAgent{24};

// The file of which the program that runs as `program` is one: itself, or what a name of its own
// ("agent-HASH.HOST.PID"), under which a launch starts it lest somebody remove it meanwhile, stands
// for. Empty: it is not kept.
std::string kept_agent(const std::string& program);

// At the start of such a program: its own name goes, the file is touched, and old ones are removed.
void settle_agent(const std::string& program);

// Removes those beside the file `own` that have not been touched for kKeepAgent, if their names are
// of that kind and they are this user's. The age is what lies between their times and that of
// `own`: who has just touched it has the file system's clock, which may be another host's.
void remove_old_agents(const std::string& own);

// Touches a file every now and then, by a process that nobody waits for: a file system that does
// not answer must not keep a guard from its work. For one thread.
class AgentTouch {
 public:
  using Clock = std::chrono::steady_clock;

  // `file` empty: never.
  AgentTouch(std::string file, std::chrono::milliseconds every, Clock::time_point now);

  // For poll(): until tick() should be called; -1: never.
  int timeout(Clock::time_point now) const;
  void tick(Clock::time_point now);

 private:
  std::string file_;
  std::chrono::milliseconds every_;
  Clock::time_point next_;
  pid_t toucher_ = -1;
};

}  // namespace hvdrun
