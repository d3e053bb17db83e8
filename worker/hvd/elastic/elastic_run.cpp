#include <algorithm>

#include <hvd/elastic_run.h>

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

  void train(const std::function<void()>& train) {
    std::uint64_t commits = state_.commits();
    try {
      share_newest();
      commits = state_.commits();
      train();
      done_ = true;
    } catch (const MembersChange&) {
      failures_ = 0;
      state_.on_leave();
    } catch (const Error& error) {
      if (state_.commits() != commits) failures_ = 0;
      count(error);
      state_.on_leave();
      require_gpu(error);
      state_.restore();
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

  // In an elastic job the ranks may be at two commits, and a new process is at none. Where all are
  // at the same one, nothing has to be sent.
  void share_newest() {
    if (elastic_) {
      if (!entered_) enter();
      entered_ = true;
      const auto mine =
          static_cast<std::int64_t>(state_.commits_ * 2 + (state_.is_shared_ ? 1 : 0));
      std::vector<std::int64_t> all(static_cast<std::size_t>(size()));
      allgather(&mine, all.data(), 1, {"hvd.elastic.commits", {}, {}});
      const auto newest = std::max_element(all.begin(), all.end());
      const auto oldest = std::min_element(all.begin(), all.end());
      if (*oldest == *newest && *newest % 2 != 0) return;
      share_from(static_cast<int>(newest - all.begin()), all);
      state_.commits_ = static_cast<std::uint64_t>(*newest / 2);
    } else {
      state_.source_ = 0;
      state_.group_ = {};
      state_.sync();
    }
    state_.is_shared_ = true;
  }

  // A state that has never been shared is another one on each rank. With GPUs it goes to all: a
  // communicator of NCCL for some of them takes longer to make than most states to send.
  void share_from(int source, const std::vector<std::int64_t>& all) {
    const std::int64_t newest = all[static_cast<std::size_t>(source)];
    std::vector<int> ranks;
    for (int rank = 0; rank < size(); ++rank)
      if (rank == source || newest % 2 == 0 || gpu() >= 0 ||
          all[static_cast<std::size_t>(rank)] != newest)
        ranks.push_back(rank);
    const Group group(ranks);
    state_.source_ = source;
    state_.group_ = group.set;
    if (process_set_rank(group.set) >= 0) state_.sync();
    if (group.is_new) remove_process_set(group.set);
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
