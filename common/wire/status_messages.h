// News of a job: changes of state as they happen, and the answer to those who ask (hvdrun status,
// Ctrl-\).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/wire/base_messages.h"
#include "common/wire/job_messages.h"

namespace hvdrun {

// In place of a stack.
inline constexpr const char* kHiddenStack = "not allowed";

// A rank's process as the kernel sees it.
struct RankProbe {
  std::uint32_t rank = 0;
  std::uint32_t pid = 0;
  std::string state;         // one letter, as in /proc/PID/stat; empty: no such process
  std::string wait_channel;  // the kernel function it sleeps in; empty where that is hidden
  std::uint64_t cpu_ms = 0;
  std::uint64_t rss_kib = 0;
  std::string system_call{};  // "read of pipe:[4711]"; empty: none, or hidden
  std::string stack{};        // of the kernel, innermost first; kHiddenStack: it does not show it
  template <class V>
  void visit(V& v) {
    v(rank);
    v(pid);
    v(state);
    v(wait_channel);
    v(cpu_ms);
    v(rss_kib);
    v(system_call);
    v(stack);
  }
};

inline bool within_limits(const RankProbe& probe) {
  for (const std::string* const text : {&probe.state, &probe.wait_channel, &probe.system_call})
    if (text->size() > limits::kMaxProcessText) return false;
  return probe.stack.size() <= limits::kMaxKernelStack;
}

// coordinator -> agent, and its answer.
struct ProbeRanks {
  static constexpr auto kType = MessageType::probe_ranks;
  std::uint64_t request = 0;
  template <class V>
  void visit(V& v) {
    v(request);
  }
};

struct RankProbes {
  static constexpr auto kType = MessageType::rank_probes;
  std::uint64_t request = 0;
  std::vector<RankProbe> ranks;
  template <class V>
  void visit(V& v) {
    v(request);
    v(ranks);
  }
};

// A user's command -> driver -> coordinator, and its answer.
struct StatusQuery {
  static constexpr auto kType = MessageType::status_query;
  bool probe = true;        // ask the hosts too
  std::uint64_t asker = 0;  // put in by the driver; 0: the driver itself
  template <class V>
  void visit(V& v) {
    v(probe);
    v(asker);
  }
};

struct RankStatus {
  std::string state;  // assigned, started, joined, left, exited
  std::uint32_t host = 0;
  std::string trouble;     // the error of its last collective, if one failed
  RankProbe probe;         // slot (as rank) and pid always; the rest when its host has answered
  std::uint32_t rank = 0;  // of the moment
  bool takes_part = true;  // in this epoch; else it has no rank
  template <class V>
  void visit(V& v) {
    v(state);
    v(host);
    v(trouble);
    v(probe);
    v(rank);
    v(takes_part);
  }
};

struct JobStatus {
  static constexpr auto kType = MessageType::job_status;
  std::uint64_t asker = 0;  // as in the query
  std::string job_id;
  std::string state;  // waiting, running, ending, ended
  std::uint64_t age_ms = 0;
  std::uint32_t driver_pid = 0;
  std::vector<std::string> hosts;
  std::vector<std::string> argv;
  std::uint32_t size = 0;         // ranks of the job
  std::vector<RankStatus> ranks;  // of them the first, as many as a message holds
  template <class V>
  void visit(V& v) {
    v(asker);
    v(job_id);
    v(state);
    v(age_ms);
    v(driver_pid);
    v(hosts);
    v(argv);
    v(size);
    v(ranks);
  }
};

// A rank's state has changed; only for a driver that writes an event log.
struct RankEvent {
  static constexpr auto kType = MessageType::rank_event;
  std::uint32_t rank = 0;  // of the moment, or the last that the slot had
  std::uint32_t slot = 0;  // the rank of the first epoch
  std::uint32_t host = 0;
  std::string state;
  std::uint32_t pid = 0;
  ExitKind kind{};           // once exited
  std::uint32_t value = 0;   // likewise
  bool ended_by_us = false;  // the kill ladder had begun
  template <class V>
  void visit(V& v) {
    v(rank);
    v(slot);
    v(host);
    v(state);
    v(pid);
    v(kind);
    v(value);
    v(ended_by_us);
  }
};

}  // namespace hvdrun
