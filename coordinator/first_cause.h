// The rank that is to blame when a job fails. Ranks rarely fail alone: one goes, and the others
// fail for lack of it, sometimes sooner. Keeps how each rank ended and what it said before, and
// judges. Sans-I/O.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/wire/job_messages.h"
#include "coordinator/init_watch.h"
#include "coordinator/membership.h"
#include "coordinator/store.h"

namespace hvdrun {

class FirstCause {
 public:
  FirstCause() = default;
  explicit FirstCause(std::uint32_t ranks) : ranks_(ranks) {}

  // A collective of the rank failed, or the init that is watched. Where that has no missing ranks,
  // and the rank's time is over, who holds it up is not known yet: init_explained() tells.
  void trouble(std::uint32_t rank, Errc code, std::string text, const InitWatch* init = nullptr);
  // The rank's next trouble is not taken for one that came of another's loss, which it has told.
  void own_trouble_follows(std::uint32_t rank);
  // True: somebody wants to know it.
  bool wants_explanation() const { return unexplained_ > 0; }
  // "rank 2 hangs in hvd::init": the verdict, where a rank has ended for that.
  std::optional<JobEnded> init_explained(const std::string& who);
  // An init after that one has ended well: nobody wants to know it any more.
  void init_opened();
  const std::string& trouble_of(std::uint32_t rank) const { return ranks_[rank].trouble; }
  // The rank's process is gone; to be called once for each, in the order of their ends.
  void ended(const RankExited& end);
  // Its process ended with 0.
  bool ended_well(std::uint32_t rank) const;
  // The rank's end, as a group of one.
  Victims end_of(std::uint32_t rank) const {
    return {ranks_[rank].kind, ranks_[rank].value, {rank}};
  }
  // It went with its host.
  void lost(std::uint32_t rank);
  // There is one rank more.
  void add_rank() { ranks_.emplace_back(); }
  // A new process takes its place: the old one's end and words are forgotten.
  void restarted(std::uint32_t rank);
  // These meet anew: what troubled them before is forgotten. Not how any has ended, nor what one
  // has said that is about to end.
  void begin_epoch(const std::vector<std::uint32_t>& members);
  // The verdict, were this rank's end the cause.
  JobEnded blame(std::uint32_t rank, const Membership& members) const;

  // The verdict that the end of this rank, which `members` has as exited already, calls for while
  // the job is running. None: it is no
  // failure, or somebody who is about to end may be the cause (tick() comes back to it).
  std::optional<JobEnded> judge(std::uint32_t rank, const Membership& members, TimePoint now);
  std::optional<JobEnded> tick(TimePoint now);
  std::optional<TimePoint> next_deadline() const;

  // A rank that ended with 0 although others wait for it in an init.
  JobEnded missed_in_init(std::uint32_t rank, const Membership& members,
                          const InitWatch& init) const;
  // Everybody's end but that of `except`, alike ones together, limits::kMaxListItems at most.
  std::vector<Victims> victims(std::optional<std::uint32_t> except) const;

 private:
  struct Rank {
    bool ended = false;
    ExitKind kind{};
    std::uint32_t value = 0;
    bool out_of_memory = false;
    std::string detail;
    Errc code{};  // of its trouble
    std::string trouble;
    std::string missing;       // who was, in its init, at that moment
    bool unexplained = false;  // it gave up in an init, and nobody was missing
  };

  std::vector<Rank> ranks_;
  std::uint32_t unexplained_ = 0;            // how many of them are
  std::optional<std::uint32_t> first_well_;  // the first rank that ended with 0
  std::optional<JobEnded> suspicion_;        // unless somebody better turns up
  TimePoint decide_at_{};
};

// The verdict on ranks for which others wait in vain.
JobEnded never_joined(std::string who);
// Those that are missing now, and there are some: "rank 2 never reached hvd::init".
std::string who_never_joined(const InitWatch& init);

// hvdrun's exit code for a rank that ended so.
std::uint32_t exit_code_of(ExitKind kind, std::uint32_t value);

}  // namespace hvdrun
