// A worker's line to its agent: one I/O thread around a Session. All functions may be called from
// any thread; they wait with a deadline and throw hvd::Error.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <hvd/hvd.h>

#include "common/base/mutex.h"
#include "common/base/unique_fd.h"
#include "common/wire/messages.h"
#include "common/wire/stall_messages.h"
#include "worker/hvd/client/session.h"
#include "worker/hvd/client/worker_environment.h"

namespace hvdrun {

// Called on the I/O thread, one at a time; must not call the line back.
struct AgentEvents {
  std::function<void(const PeerLost&)> peer_lost;
  std::function<void(const hvd::Error&)> connection_lost;
  // The launcher asks what the engine waits for; the program's own threads may hang. Must not wait.
  std::function<StallReport()> stall_asked = {};
  // A rank of another host comes to no collective of a process set any more.
  std::function<void(const PeerGaveUp&)> peer_gave_up = {};
};

// The oldest events of this rank's timeline; nothing when there are none. Called by one thread at a
// time, the I/O thread mostly; must not call the line back.
using TimelineSource = std::function<std::optional<TimelineBatch>()>;

class AgentConnection {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  // Connects and joins. In an elastic job that may last until the launcher lets this process in or
  // ends it, long after the deadline. `layout`: see WorkerJoin.
  AgentConnection(const WorkerEnvironment& environment, Deadline deadline, std::string layout = {});
  // Closes without a goodbye: to the agent this rank is lost, unless leave() was called.
  ~AgentConnection();
  AgentConnection(const AgentConnection&) = delete;
  AgentConnection& operator=(const AgentConnection&) = delete;

  std::uint32_t epoch() const { return joined_.epoch; }
  const WorkerTopology& topology() const { return joined_.topology; }

  // From now on events go to `events`; those of before are delivered first. A rank that left
  // cleanly before our first fence opened is no event: it has not left the job that begins there.
  void set_events(AgentEvents events) HVD_EXCLUDES(events_mutex_);

  // Waits until every rank has entered; returns rank 0's blob. The others' must be empty.
  std::string fence(std::string blob, Deadline deadline) HVD_EXCLUDES(mutex_);
  void put(std::string key, std::string value, Deadline deadline) HVD_EXCLUDES(mutex_);
  // Waits for the key; nothing when the deadline passes before somebody puts it. Throws peer_lost
  // when a rank is lost meanwhile.
  std::optional<std::string> get(std::string key, Deadline deadline) HVD_EXCLUDES(mutex_);
  // The host's shared memory of that name, zeroed when this rank is the first to ask.
  UniqueFd segment(std::string name, std::uint64_t size, Deadline deadline) HVD_EXCLUDES(mutex_);
  // Nobody will ask for it again; the name begins with "mem/" and this rank. Waits for nothing.
  void drop_segment(std::string name) noexcept HVD_EXCLUDES(mutex_);
  // Tells the launcher why a collective failed here, for its summary; waits a moment at most.
  // `given_up`: the process set (0: all ranks) of which none can run here any more, so that ranks
  // of other hosts need not wait for this one.
  void report(const hvd::Error& error, std::optional<std::uint32_t> given_up = {}) noexcept
      HVD_EXCLUDES(mutex_);
  // Tells the launcher that operations wait: when the oldest has waited for topology()'s
  // stall_warning, after each further such time, and once after stall_shutdown. Waits for nothing.
  void report_stall(const StallReport& report) noexcept HVD_EXCLUDES(mutex_);
  // Tells the launcher that another rank of this host has died. Waits for nothing.
  void report_death(std::uint32_t rank) noexcept HVD_EXCLUDES(mutex_);
  // Says goodbye; gives the agent a moment to take it. `returns`: it is none, in an elastic job
  // this process comes to the next epoch.
  void leave(bool returns = false) noexcept HVD_EXCLUDES(mutex_);
  // The program goes on when others are lost. Waits until the coordinator knows it: what ranks do
  // together afterwards, all of them have said so before. `layout`: see WorkerJoin.
  void enter_elastic(std::string layout, Deadline deadline) HVD_EXCLUDES(mutex_);
  // Somebody waits to be let in, since this line was opened.
  bool meeting_wanted() const noexcept { return meeting_wanted_.load(std::memory_order_relaxed); }

  // Where the timeline's events come from; {}: nowhere, and nobody is called any more when this
  // returns. What is there goes to the agent 200 ms after timeline_ready(false), at once after
  // timeline_ready(true), and before leave(), report() and stop_timeline(). An agent that does not
  // keep up is sent nothing meanwhile, so that nothing else waits behind events.
  void set_timeline(TimelineSource source) HVD_EXCLUDES(timeline_mutex_);
  // There is something to take. Any thread, at any time; waits for nothing.
  void timeline_ready(bool at_once) noexcept;
  // The program starts or stops the timeline; `session` is what its batches have. hvdrun writes to
  // the path that rank 0 names.
  void start_timeline(std::uint32_t session, std::string path) noexcept
      HVD_EXCLUDES(timeline_mutex_) HVD_EXCLUDES(mutex_);
  void stop_timeline(std::uint32_t session) noexcept HVD_EXCLUDES(timeline_mutex_)
      HVD_EXCLUDES(mutex_);

  // In the child of a fork(), which has no I/O thread: drops the child's copies of the
  // descriptors, so that the agent sees the end of the parent. Async-signal-safe.
  void abandon_in_child() noexcept;

 private:
  void run() HVD_EXCLUDES(mutex_);
  bool step(std::string& unsent) HVD_EXCLUDES(mutex_);
  bool receive_once() HVD_EXCLUDES(mutex_);
  void dispatch(std::vector<SessionEvent> events) HVD_EXCLUDES(mutex_);
  void take_event(SessionEvent& event) HVD_EXCLUDES(mutex_);
  void answer_stall(std::uint64_t request) HVD_EXCLUDES(mutex_) HVD_EXCLUDES(events_mutex_);
  void lose(const std::string& text) HVD_EXCLUDES(mutex_);
  // Takes events until there are none, or (patiently) until the agent is behind with `unsent`.
  // False: some may be left.
  bool take_timeline(bool patiently, std::size_t unsent) HVD_EXCLUDES(timeline_mutex_)
      HVD_EXCLUDES(mutex_);
  void flush_timeline() noexcept HVD_EXCLUDES(timeline_mutex_) HVD_EXCLUDES(mutex_);
  void control_timeline(TimelineControl control) noexcept HVD_EXCLUDES(mutex_);
  void look_after_timeline(std::size_t unsent) HVD_EXCLUDES(timeline_mutex_) HVD_EXCLUDES(mutex_);
  int poll_timeout() const;
  void wake() const;
  void stop() noexcept;
  void check_usable() HVD_REQUIRES(mutex_);
  // The launcher alone, or other ranks, too.
  enum class WaitsFor : std::uint8_t { launcher, ranks };
  Reply wait_reply(std::uint64_t request, Deadline deadline, const std::string& what,
                   WaitsFor whom = WaitsFor::launcher) HVD_REQUIRES(mutex_);

  std::atomic<bool> meeting_wanted_{false};
  UniqueFd socket_;
  UniqueFd event_;
  Joined joined_;  // constant after the constructor

  Mutex mutex_;
  CondVar changed_;
  Session session_ HVD_GUARDED_BY(mutex_);
  bool is_joined_ HVD_GUARDED_BY(mutex_) = false;
  bool stop_ HVD_GUARDED_BY(mutex_) = false;
  bool flushed_ HVD_GUARDED_BY(mutex_) = true;
  bool fence_opened_ HVD_GUARDED_BY(mutex_) = false;
  std::optional<hvd::Error> lost_ HVD_GUARDED_BY(mutex_);       // the line
  std::optional<hvd::Error> lost_peer_ HVD_GUARDED_BY(mutex_);  // the first rank that died
  // Waiting calls; an answer that finds no entry has been given up.
  std::map<std::uint64_t, std::optional<Reply>> replies_ HVD_GUARDED_BY(mutex_);
  std::map<std::uint32_t, std::optional<FenceOutcome>> fences_ HVD_GUARDED_BY(mutex_);

  Mutex events_mutex_;
  AgentEvents events_ HVD_GUARDED_BY(events_mutex_);
  std::vector<std::function<void(const AgentEvents&)>> undelivered_ HVD_GUARDED_BY(events_mutex_);

  Mutex timeline_mutex_;  // before mutex_
  TimelineSource timeline_ HVD_GUARDED_BY(timeline_mutex_);
  enum class Ready : std::uint8_t { no, soon, at_once };
  std::atomic<Ready> timeline_ready_{Ready::no};
  std::optional<Deadline> timeline_due_;  // of the I/O thread alone

  std::thread thread_;
};

}  // namespace hvdrun
