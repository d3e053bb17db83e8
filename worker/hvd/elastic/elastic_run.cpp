#include <algorithm>
#include <string>
#include <utility>

#include <hvd/elastic_run.h>

#include "worker/hvd/elastic/first_step.h"

namespace hvd::elastic {
namespace {

// Every rank of the operation has it, or hears of it as soon as this one leaves the job.
bool is_survivable(ErrorCode code) {
  switch (code) {
    case ErrorCode::mismatch:
    case ErrorCode::peer_lost:
    case ErrorCode::timeout:
    case ErrorCode::unavailable:
    case ErrorCode::internal:
      return true;
    case ErrorCode::not_initialized:
    case ErrorCode::invalid_argument:
      break;
  }
  return false;
}

}  // namespace

// Friend of State.
class Run {
 public:
  Run(State& state, const RunOptions& options)
      : state_(state), options_(options), elastic_(is_elastic()) {}
  ~Run() { state_.drop_transfer(); }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  void train(const std::function<void()>& train) {
    std::uint64_t commits = state_.commits();
    try {
      share_newest();
      state_.is_current_ = false;
      commits = state_.commits();
      train();
      catch_up();  // where it has ended without a step
      done_ = true;
    } catch (const MembersChange&) {
      failures_ = 0;
      state_.drop_transfer();
      state_.on_leave();
    } catch (const Error& error) {
      if (state_.commits() != commits) failures_ = 0;
      count(error);
      state_.drop_transfer();
      state_.on_leave();
      require_gpu(error);
      if (state_.is_new_) return;
      state_.restore();
      state_.is_current_ = !state_.has_callbacks();
    }
  }
  bool done() const { return done_; }

  // In an elastic job others may be lost while these meet.
  void meet() {
    for (;;) {
      try {
        meet_again(options_.init);
        return state_.on_reset();
      } catch (const Error& error) {
        if (!elastic_) throw;
        count(error);
      }
    }
  }

 private:
  // Throws an error that is not to be survived, or is the last of too many.
  void count(const Error& error) {
    if (!is_survivable(error.code())) throw Error(error);
    if (elastic_ && error.code() == ErrorCode::peer_lost) return;
    if (++failures_ >= options_.max_failures) throw Error(error);
  }

  // A rank's words on its state: twice the number of its commits, and one more if the state has
  // ever been everybody's. Then the last such number that it has heard from all; -1: it is new in a
  // running job, and has heard nothing. Then whether it can train while the state comes.
  struct Words {
    std::int64_t number;
    std::int64_t heard;
    std::int64_t overlaps;
  };

  // In an elastic job the ranks may be at two commits, and a new process is at none. Where all are
  // at the same one, nothing has to be sent.
  void share_newest() {
    if (!elastic_) {
      state_.source_ = 0;
      state_.group_ = {};
      state_.sync();
      state_.is_shared_ = true;
      return;
    }
    // The program may have added to it since.
    if (std::string layout = state_.layout(); !entered_ || layout != told_) {
      enter(layout);
      told_ = std::move(layout);
    }
    entered_ = true;
    if (state_.heard_ < 0 && !hvdrun::is_unheard()) state_.heard_ = 0;
    const Words mine{static_cast<std::int64_t>(state_.commits_ * 2 + (state_.is_shared_ ? 1 : 0)),
                     state_.heard_, options_.overlap && gpu() < 0 ? 1 : 0};
    std::vector<Words> all(static_cast<std::size_t>(size()));
    allgather(&mine.number, &all.front().number, sizeof(Words) / sizeof(std::int64_t),
              {"hvd.elastic.commits", {}, {}});
    const auto less = [](const Words& a, const Words& b) { return a.number < b.number; };
    const auto newest = std::max_element(all.begin(), all.end(), less);
    require_state(all, newest->number);
    state_.heard_ = newest->number;
    hvdrun::set_heard();
    state_.is_new_ = !is_shared(mine.number) && is_shared(newest->number);
    if (std::min_element(all.begin(), all.end(), less)->number == newest->number &&
        is_shared(newest->number))
      return;
    share_from(static_cast<int>(newest - all.begin()), all);
  }

  static bool is_shared(std::int64_t number) { return number >= 0 && number % 2 != 0; }

  // All ranks that had the state may be lost while the others were about to get it. These would
  // begin anew, and nobody would know.
  void require_state(const std::vector<Words>& all, std::int64_t newest) {
    const bool had =
        std::any_of(all.begin(), all.end(),
                    [](const Words& one) { return is_shared(one.heard); }) ||
        std::all_of(all.begin(), all.end(), [](const Words& one) { return one.heard < 0; });
    if (!had || is_shared(newest)) return;
    failures_ = options_.max_failures;
    throw Error(ErrorCode::unavailable,
                "elastic::run: all ranks that had the state are lost; rank " +
                    std::to_string(rank()) + " has not got it from them in time");
  }

  // A state that has never been shared is another one on each rank. With GPUs it goes to all: a
  // communicator of NCCL for some of them takes longer to make than most states to send.
  void share_from(int source, const std::vector<Words>& all) {
    const std::int64_t newest = all[static_cast<std::size_t>(source)].number;
    const auto commits = static_cast<std::uint64_t>(newest / 2);
    std::vector<int> ranks;
    std::vector<int> newcomers;
    bool overlaps = is_shared(newest);
    for (int rank = 0; rank < size(); ++rank) {
      const Words& its = all[static_cast<std::size_t>(rank)];
      if (rank == source || !is_shared(newest) || gpu() >= 0 || its.number != newest)
        ranks.push_back(rank);
      if (its.number != newest) newcomers.push_back(rank);
      overlaps = overlaps && its.overlaps != 0 && (its.number == newest || !is_shared(its.number));
    }
    const Group group(ranks);
    state_.source_ = source;
    state_.group_ = group.set;
    if (overlaps) {
      state_.owns_group_ = group.is_new;
      hvdrun::first_step().begin(
          newcomers, [this] { state_.end_transfer(); }, &state_);
      return state_.begin_transfer(commits);
    }
    if (process_set_rank(group.set) >= 0) state_.sync();
    if (group.is_new) remove_process_set(group.set);
    state_.commits_ = commits;
    state_.is_shared_ = true;
    state_.is_new_ = false;
  }

  // The process set of these ranks. The program may have one of its own.
  struct Group {
    explicit Group(const std::vector<int>& ranks) {
      for (const ProcessSet& known : process_sets()) {
        if (process_set_ranks(known) != ranks) continue;
        set = known;
        return;
      }
      set = add_process_set(ranks, "hvd.elastic.state");
      is_new = true;
    }
    ProcessSet set;
    bool is_new = false;
  };

  State& state_;
  const RunOptions& options_;
  const bool elastic_;
  bool entered_ = false;
  std::string told_;  // the state's layout
  int failures_ = 0;
  bool done_ = false;
};

void run(State& state, const std::function<void()>& train, const RunOptions& options) {
  if (options.max_failures < 1)
    throw Error(
        ErrorCode::invalid_argument,
        "elastic::run: max_failures is " + std::to_string(options.max_failures) + "; at least 1");
  Run run(state, options);
  for (;;) {
    run.train(train);
    if (run.done()) return;
    run.meet();
  }
}

CommitEvery::CommitEvery(State& state, int batches) : state_(state), batches_(batches) {
  if (batches < 1)
    throw Error(ErrorCode::invalid_argument,
                "elastic::CommitEvery: " + std::to_string(batches) + " batches; at least 1");
}

void CommitEvery::on_batch_end() {
  if (++since_ < batches_) return;
  since_ = 0;
  state_.commit();
}

}  // namespace hvd::elastic
