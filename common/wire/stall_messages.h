// The messages about stalls. A worker says what its engine waits for, and its agent adds what the
// kernel says of the process. The coordinator composes who waits for whom.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "common/base/limits.h"
#include "common/wire/base_messages.h"
#include "common/wire/status_messages.h"

namespace hvdrun {

// An operation that was submitted and is not done.
struct PendingTensor {
  std::string name;
  std::uint64_t age_ms = 0;
  std::vector<std::uint32_t> ranks{};  // that take part, in order; empty: all of the job
  template <class V>
  void visit(V& v) {
    v(name);
    v(age_ms);
    v(ranks);
  }
};

// The operations that a rank's engine waits for.
struct StallReport {
  std::vector<PendingTensor> pending;  // oldest first, at most limits::kMaxPendingTensors
  std::uint64_t pending_count = 0;     // with those that are not listed
  std::string last_submitted;          // empty: nothing yet
  std::uint64_t submitted = 0;
  bool in_join = false;  // waits in hvd::join, and is missing from no operation of all ranks
  // Waits in hvd::init for the others, and there for connections to these ranks, if to any.
  bool meeting = false;
  std::vector<std::uint32_t> unconnected{};
  template <class V>
  void visit(V& v) {
    v(pending);
    v(pending_count);
    v(last_submitted);
    v(submitted);
    v(in_join);
    v(meeting);
    v(unconnected);
  }
};

inline std::size_t ranks_in(const StallReport& report) {
  std::size_t ranks = 0;
  for (const PendingTensor& tensor : report.pending) ranks += tensor.ranks.size();
  return ranks;
}

inline bool within_limits(const StallReport& report) {
  return ranks_in(report) <= limits::kMaxPendingRanks &&
         report.unconnected.size() <= limits::kMaxPendingRanks &&
         report.pending.size() <= limits::kMaxPendingTensors &&
         report.pending.size() <= report.pending_count &&
         report.last_submitted.size() <= limits::kMaxTensorName &&
         std::all_of(report.pending.begin(), report.pending.end(), [](const PendingTensor& tensor) {
           return tensor.name.size() <= limits::kMaxTensorName;
         });
}

// Worker -> agent: by itself (request 0) when an operation has waited for the warning time, or as
// the answer to StallAsk.
struct WorkerStall {
  static constexpr auto kType = MessageType::worker_stall;
  std::uint64_t request = 0;
  StallReport report;
  template <class V>
  void visit(V& v) {
    v(request);
    v(report);
  }
};

struct StallAsk {
  static constexpr auto kType = MessageType::stall_ask;
  std::uint64_t request = 0;
  template <class V>
  void visit(V& v) {
    v(request);
  }
};

// Agent -> coordinator: an operation of this rank, the oldest of the host, has waited so long.
struct RankStalled {
  static constexpr auto kType = MessageType::rank_stalled;
  std::uint32_t rank = 0;
  std::uint64_t age_ms = 0;
  template <class V>
  void visit(V& v) {
    v(rank);
    v(age_ms);
  }
};

// Coordinator -> agent: what do all your ranks do? And its answer.
struct SurveyRanks {
  static constexpr auto kType = MessageType::survey_ranks;
  std::uint64_t request = 0;
  template <class V>
  void visit(V& v) {
    v(request);
  }
};

struct RankPicture {
  RankProbe probe;
  std::string command;    // the process's name
  bool answered = false;  // the report is of now; else of an earlier time, or there is none
  StallReport report;
  template <class V>
  void visit(V& v) {
    v(probe);
    v(command);
    v(answered);
    v(report);
  }
};

inline bool within_limits(const RankPicture& rank) {
  return rank.command.size() <= limits::kMaxProcessText && within_limits(rank.probe) &&
         within_limits(rank.report);
}

struct RankPictures {
  static constexpr auto kType = MessageType::rank_pictures;
  std::uint64_t request = 0;
  std::vector<RankPicture> ranks;
  template <class V>
  void visit(V& v) {
    v(request);
    v(ranks);
  }
};

// One of the ranks that a stall warning names.
struct NamedRank {
  std::uint32_t host = 0;
  std::string state;    // assigned, started, joined, left, exited
  RankPicture picture;  // only its rank when the host has not answered
  template <class V>
  void visit(V& v) {
    v(host);
    v(state);
    v(picture);
  }
};

// Coordinator -> driver.
struct StallWarning {
  static constexpr auto kType = MessageType::stall_warning;
  std::string tensor;
  std::uint64_t waited_ms = 0;
  bool ends_job = false;
  std::uint32_t waiting = 0;     // how many ranks have submitted it
  std::uint32_t missing = 0;     // how many have not
  std::vector<NamedRank> named;  // the first of these
  std::vector<std::string> lines;
  template <class V>
  void visit(V& v) {
    v(tensor);
    v(waited_ms);
    v(ends_job);
    v(waiting);
    v(missing);
    v(named);
    v(lines);
  }
};

}  // namespace hvdrun
