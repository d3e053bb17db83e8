// Training that goes on when ranks are lost, or after an error: a state that is kept in memory and
// shared, a sampler that knows what has been processed, and a loop around both. Without LibTorch;
// <hvd/elastic.h> has the state of a model, and includes this.
//
//   hvd::init();
//   hvd::elastic::MemoryState state;
//   state.add("weights", weights.data(), weights.size() * sizeof(float)).add("step", step);
//   hvd::elastic::run(state, [&] {
//     while (step < steps) {
//       ... gradients, hvd::allreduce, weights ...
//       ++step;  // before the commit, which may not return
//       state.commit();
//     }
//   });
//
// hvdrun --min-np N: while so many ranks are left, a rank that is lost ends nothing. The others
// stay in their processes, meet again and go on from their last commit. The lost one is started
// again, and is let in at a commit of the others; then `train` is called again, with other ranks.
// Without --min-np the ranks of a job stay as they are, and run() goes on after errors that all of
// them have survived. Errors as in <hvd/hvd.h>. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <hvd/hvd.h>

namespace hvd {
namespace elastic {

// The ranks are about to change: run() catches it, and so nobody else may. State::commit() throws
// it, on all ranks at the same commit.
class HVD_EXPORT MembersChange : public std::exception {
 public:
  ~MembersChange() override;
  const char* what() const noexcept override;
};

// State that training must not lose.
class HVD_EXPORT State {
 public:
  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  virtual ~State();

  // From here on restore() comes back to what is now. In an elastic job all ranks call it together,
  // as the same call between their collectives: it has one of its own, of a byte, so that nobody is
  // two commits ahead. There it throws MembersChange when somebody waits to be let in. In other
  // jobs each rank commits for itself, and rank 0's commit counts after an error.
  void commit();
  // The number of calls of commit(), those of the rank included whose state this one has taken
  // over.
  std::uint64_t commits() const { return commits_; }
  // Called after each reset of run(), when the ranks have met again, in the order of registration.
  // Not in a process that is new, so without collectives.
  void register_reset_callback(std::function<void()> callback);
  // Called each time before the ranks leave each other to meet again, in the order of registration,
  // and before restore(): where the program gives back what holds collectives of theirs. CUDA
  // graphs that have captured some must be destroyed here, as NCCL waits for that. Without
  // collectives.
  void register_leave_callback(std::function<void()> callback);

  // Keeps a copy; the first time in the constructor of a derived class, or before run(). Within
  // run() it is for commit() to call it: the copy may be under way to ranks that are new.
  virtual void save() = 0;
  // Back to the copy.
  virtual void restore() = 0;
  // Its parts in words, the same on all ranks whenever they meet. A new process of an elastic job
  // tells it first, and is ended if no rank has told such a one; empty: it is let in.
  virtual std::string layout() const { return {}; }
  // The state of rank source() becomes that of all ranks of group(), who call this together; then
  // save(). Other ranks have the same state already.
  virtual void sync() = 0;

 protected:
  // As sync(), for RunOptions::overlap: what steers the training becomes everybody's before it
  // returns. The rest of rank source()'s copy is under way then, which must not change until all
  // that is returned has ended. Unless overridden it is sync(); a class that adds to sync() adds to
  // this, its handles behind the others.
  virtual std::vector<Handle> begin_sync();
  // Then, on ranks that are new: the handle with this number in begin_sync()'s list has ended. What
  // it has brought may become the state while the next ones are under way. In their order.
  virtual void end_piece(std::size_t number);
  // Last: all that is left becomes the state, and gradients stay.
  virtual void end_sync();

  // The rank whose state is the newest; 0 in jobs that are not elastic.
  int source() const { return source_; }
  // For sync(): this rank's copy is no commit of the job's, so nobody will go back to it.
  bool is_new() const { return is_new_; }
  // For sync() on rank source(): the copy is its state, so it need not be made anew.
  bool copy_is_current() const { return is_current_; }
  // It and the ranks that lack its state: where sync() has its collectives. All ranks mostly, and
  // in jobs that are not elastic.
  const ProcessSet& group() const { return group_; }
  // For sync(), before anything is sent: ranks of group() whose states are of different makes
  // throw. `layout` says what this one's is of, in words; `who` is in the message, which has both
  // sides. Error(mismatch) on all of them; but in an elastic job a rank that differs from source()
  // throws Error(invalid_argument), which ends it, and the others Error(peer_lost), and go on
  // without it.
  void require_same_layout(const std::string& who, const std::string& layout) const;

 private:
  friend class Run;
  void on_leave();
  void on_reset();
  // They may change the state.
  bool has_callbacks() const { return !callbacks_.empty() || !leave_callbacks_.empty(); }
  virtual void reset() {}
  void begin_transfer(std::uint64_t commits);
  void wait_for_transfer(bool takes_pieces = false);
  void end_transfer();
  void drop_transfer() noexcept;
  void has_arrived();
  void save_all();

  std::uint64_t commits_ = 0;
  bool is_shared_ = false;   // it has been synced
  std::int64_t heard_ = -1;  // of the ranks' newest one; see Run
  bool is_new_ = false;
  bool is_current_ = false;
  int source_ = 0;
  ProcessSet group_;
  bool owns_group_ = false;        // until a commit removes it
  std::vector<Handle> transfer_;   // of begin_sync()
  std::uint64_t transferred_ = 0;  // the commits of what it sends
  std::vector<std::function<void()>> callbacks_;
  std::vector<std::function<void()>> leave_callbacks_;
};

// Deals out the samples of an epoch, a batch of all ranks at a time. How far the epoch has come is
// one number, the same on all ranks and a part of their commits. So each sample counts once in the
// model, whoever is lost or comes in between; and which samples make a batch does not depend on the
// ranks, as long as the batches stay as large.
class HVD_EXPORT ElasticSampler {
 public:
  // The way with a batch that cannot be dealt evenly.
  enum class Padding {
    none,    // the ranks' parts differ by one sample
    repeat,  // samples of the batch are used again, until all parts are as large
  };

  // A sampler of `size` samples, 0 to size - 1. The order of an epoch follows from seed and epoch
  // alone, and is ascending without `shuffle`. Works before init() as rank 0 of 1.
  explicit ElasticSampler(std::size_t size, bool shuffle = true, std::uint64_t seed = 0,
                          Padding padding = Padding::none);

  // This rank's part of the next `global_batch` samples of all ranks together; the last batch of an
  // epoch may have fewer. The part may be empty: without padding, where there are fewer samples
  // than ranks. Nothing at the end of the epoch, on all ranks alike. To keep the batch of a rank
  // instead of that of all, ask for its samples times contributors(). Throws
  // Error(invalid_argument) for 0.
  //
  // In the first step of ranks that are new, parts are of the contributors. A new rank gets a
  // stand-in for which weight() is 0: as many as the others, from the batch's first sample on. So
  // deal a batch after the step of the one before.
  std::optional<std::vector<std::size_t>> next(std::size_t global_batch);
  // The weight of the last part in an average over ranks that is to be one over samples: the share
  // of the batch that it has, times contributors(). 1 where all parts are as large.
  double weight() const { return weight_; }
  // The batch that next() has dealt, of several the oldest one: its samples are in the model, and
  // are not dealt again after a reset(). Without such a batch it does nothing.
  void record();
  // Begins an epoch of which nothing has been processed. Call it at the end of the one before, so
  // that an error right after that does not repeat its last samples.
  void set_epoch(std::uint64_t epoch);
  // Deals what has not been recorded anew, over the ranks that there are now. run() calls it for a
  // sampler that its state has.
  void reset();

  std::uint64_t epoch() const { return epoch_; }
  // Samples of all ranks in this epoch that are recorded.
  std::size_t processed() const { return processed_; }
  // Samples of all ranks in this epoch that are still to be dealt.
  std::size_t remaining() const { return size_ - dealt_; }
  // As from set_epoch() and record().
  void load(std::uint64_t epoch, std::size_t processed);

 private:
  std::size_t size_;
  bool shuffle_;
  Padding padding_;
  std::uint64_t seed_;
  std::uint64_t epoch_ = 0;
  std::size_t processed_ = 0;
  std::size_t dealt_ = 0;
  double weight_ = 1;
  std::vector<std::size_t> unrecorded_;  // batches that are dealt, the oldest one first
  std::vector<std::size_t> order_;       // of the epoch
};

// Named memory and samplers. All of them must outlive it.
class HVD_EXPORT MemoryState : public State {
 public:
  MemoryState() = default;
  ~MemoryState() override;

  // Before run(): `bytes` of memory on the CPU, from now on part of the state. Throws
  // Error(invalid_argument) for a name that is taken.
  MemoryState& add(const std::string& name, void* data, std::size_t bytes);
  // A number, or anything else that is its bytes: no pointers.
  template <class T>
  MemoryState& add(const std::string& name, T& value) {
    static_assert(std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>);
    return add_part(name, {&value, sizeof value, true});
  }
  MemoryState& add(ElasticSampler& sampler);

  std::string layout() const override;
  void save() override;
  void restore() override;
  // Throws Error(mismatch) on every rank where names or sizes differ.
  void sync() override;

 protected:
  std::vector<Handle> begin_sync() override;
  void end_piece(std::size_t number) override;

 private:
  struct Part {
    void* data;
    std::size_t bytes;
    bool steers;  // a number, not memory
  };
  // Memory that comes with one handle.
  struct Piece {
    char* to;
    std::size_t at;  // in the copy
    std::size_t bytes;
  };

  MemoryState& add_part(const std::string& name, const Part& part);
  void reset() override;
  std::size_t size() const;
  void take(bool memory_too);

  std::map<std::string, Part> parts_;
  std::vector<ElasticSampler*> samplers_;
  std::vector<Piece> pieces_;  // under way
  std::string copy_;
};

struct RunOptions {
  // For the init() that follows an error.
  InitOptions init{};
  // So many errors in a row without a commit between: then run() throws the last. An error that
  // comes again each time would else be repeated for ever. At least 1. Ranks that an elastic job
  // loses do not count.
  int max_failures = 3;
  // Ranks that come to a running job get their state while all train: see contributors(). The
  // program must be made for it. The same on all ranks. Without effect for ranks on GPUs, in jobs
  // that are not elastic.
  bool overlap = false;
};

// Calls `train` until it returns, on all ranks together, between init() and shutdown() and before
// any collective. First the newest state becomes everybody's. `train` may throw an Error that all
// ranks may have survived: mismatch, peer_lost of a rank that left or is lost, timeout,
// unavailable, internal. Then the state goes back to its last commit, and the ranks leave the job
// and join it again; after MembersChange they do so from the commit that they are at. Their part of
// it is gone: process sets that are not in options.init, handles, DistributedOptimizers. rank() and
// size() may be others. Samplers are reset, the newest state becomes everybody's, and `train` is
// called again. All ranks must get such an error or leave `train` by another way that others see:
// one that returns has left the job for them. Everything else that `train` throws, run() throws
// too.
//
// A process that comes to a running job begins its program anew, and is in `train` before it has
// any collective with the others. Its init() has asked nobody: it joins them here, with the options
// of that init(), and throws what init() throws. So they do not wait for what it does before.
// rank() and size() are those of its environment until then, and may be others in `train`.
HVD_EXPORT void run(State& state, const std::function<void()>& train,
                    const RunOptions& options = {});

// commit() after every `batches` batches; of a training loop's end of batch. A new one for each
// call of run()'s `train`, so that all ranks count from the same one.
class HVD_EXPORT CommitEvery {
 public:
  // Throws Error(invalid_argument) for less than 1.
  explicit CommitEvery(State& state, int batches = 1);
  void on_batch_end();

 private:
  State& state_;
  int batches_;
  int since_ = 0;
};

// The first step of ranks that are new, with RunOptions::overlap. They are in `train` with the
// others, and have of the state what steers it: numbers and samplers, a TorchState's options of the
// optimizer, too. The rest comes meanwhile. So they take part in all collectives, and what they
// have computed must not count. DistributedOptimizer and SyncBatchNorm see to that, and
// ElasticSampler deals them no weight. A program's own collectives must do the same: the sum of
// what ranks with a contributor_rank() bring, divided by contributors(). Others see what the
// newcomers bring, as ever.
//
// Between its averaged gradients and their use each step calls catch_up(), on all ranks alike;
// DistributedOptimizer::step() does. A loop that reads parameters between synchronize() and step()
// calls it before. The new ranks have the whole state then, so that the step is
// the same on all. With that the first step is over. A commit() before it gives them the state in
// one piece, and the others wait.
//
// Ranks of `set` whose work counts in this step; all but in a first step. As size() before init().
HVD_EXPORT int contributors(const ProcessSet& set = {});
// This rank's number among those of the job; -1: it counts nothing in this step.
HVD_EXPORT int contributor_rank();
// Ends a first step; nothing in others. Throws what a collective throws.
HVD_EXPORT void catch_up();
// The seconds that ranks had to wait in the last first step, until the slowest new one had its
// state. All ranks know it after the commit that follows.
HVD_EXPORT double state_wait() noexcept;

// The next five are what run() is made of, for loops of one's own.
//
// The job is elastic (hvdrun --min-np). False before init(), and without a launcher.
HVD_EXPORT bool is_elastic() noexcept;
// Tells the launcher that this program goes on when others are lost, and waits until it knows;
// until all have said so a loss ends the job. A process that is new joins the others here.
// `layout`: as State::layout(); a new process with one that no rank has told of is ended instead.
// Nothing in jobs that are not elastic.
HVD_EXPORT void enter(const std::string& layout = {});
// Somebody waits to be let in. Ranks hear of it at different times, so they must agree on it.
HVD_EXPORT bool meeting_wanted() noexcept;
// In an elastic job, before the state goes back to its last commit: ends all that is under way on
// the GPU, for `reason`, and asks it. Where it is of no use to this process any more the process
// ends with exit code 84, and is started again. Nothing on the CPU.
HVD_EXPORT void require_gpu(const Error& reason);
// Leaves the job and joins it again; in an elastic job that waits until all who are left have come.
// As shutdown() and init(), which would be a goodbye.
HVD_EXPORT void meet_again(const InitOptions& options = {});

}  // namespace elastic
}  // namespace hvd
