// Training that goes on after an error: a state that is kept in memory and shared, a sampler that
// knows what has been processed, and a loop around both. <hvd/torch.h> includes this.
//
//   hvd::init();
//   hvd::elastic::ElasticSampler sampler(dataset_size);
//   std::int64_t epoch = 0;
//   hvd::elastic::TorchState state(model.get(), &sgd);
//   state.add("epoch", epoch).add(sampler);
//   hvd::elastic::run(state, [&] {
//     hvd::DistributedOptimizer optimizer(sgd);  // a new one each time
//     for (; epoch < epochs; ++epoch) {
//       while (const auto batch = sampler.next(32)) {
//         ... step ...
//         sampler.record(batch->size());
//         state.commit();
//       }
//       sampler.set_epoch(epoch + 1);
//     }
//   });
//
// The ranks of a job stay as they are: a rank that dies still ends the job. What run() goes on
// after is an error of the collectives that all ranks have survived. Errors as in <hvd/hvd.h>. Not
// thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <hvd/hvd.h>
#include <torch/torch.h>

namespace hvd {
namespace elastic {

// State that training must not lose.
class HVD_EXPORT State {
 public:
  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  virtual ~State();

  // From here on restore() comes back to what is now. Each rank for itself, without a collective;
  // where ranks have committed at different steps, rank 0's counts after an error.
  void commit();
  // The number of calls of commit().
  std::uint64_t commits() const { return commits_; }
  // Called after each reset of run(), when the ranks have met again, in the order of registration.
  void register_reset_callback(std::function<void()> callback);

  // Keeps a copy; the first time in the constructor of a derived class, or before run().
  virtual void save() = 0;
  // Back to the copy.
  virtual void restore() = 0;
  // Rank 0's state becomes that of all ranks, who call this together; then save().
  virtual void sync() = 0;

 private:
  friend class Run;
  void on_reset();
  virtual void reset() {}

  std::uint64_t commits_ = 0;
  std::vector<std::function<void()>> callbacks_;
};

// Gives each rank its part of the samples of an epoch that have not been processed yet. The number
// of ranks may have been another when the others were.
class HVD_EXPORT ElasticSampler {
 public:
  // A sampler of `size` samples, 0 to size - 1. The order of an epoch follows from seed and epoch
  // alone, and is ascending without `shuffle`. Works before init() as rank 0 of 1.
  explicit ElasticSampler(std::size_t size, bool shuffle = true, std::uint64_t seed = 0);

  // The next samples of this rank, at most `batch_size` of them, at least 1; nothing at the end of
  // the epoch. All ranks get as many: at the end of an epoch samples are used again to fill up.
  // Throws Error(invalid_argument) for 0.
  std::optional<std::vector<std::size_t>> next(std::size_t batch_size);
  // All ranks have processed a batch with so many samples of each: after a reset() they are not
  // given out again.
  void record(std::size_t batch_size);
  // Begins an epoch of which nothing has been processed. Call it at the end of the one before, so
  // that an error right after that does not repeat its last samples.
  void set_epoch(std::uint64_t epoch);
  // Distributes the rest of the epoch anew, over the ranks that there are now. run() calls it for a
  // sampler that its state has.
  void reset();

  std::uint64_t epoch() const { return epoch_; }
  // Samples of all ranks in this epoch.
  std::size_t processed() const { return processed_; }
  // The samples of this rank, from here to the end of the epoch.
  std::size_t remaining() const { return mine_.size() - place_; }
  // As from set_epoch() and record().
  void load(std::uint64_t epoch, std::size_t processed);

 private:
  std::size_t size_;
  bool shuffle_;
  std::uint64_t seed_;
  std::uint64_t epoch_ = 0;
  std::size_t processed_ = 0;
  std::vector<std::size_t> mine_;  // samples of this rank
  std::size_t place_ = 0;          // of the next one in it
};

// A model, an optimizer, numbers and samplers. All of them must outlive it.
class HVD_EXPORT TorchState : public State {
 public:
  // Either may be null. `optimizer` is the one inside a DistributedOptimizer. Saves.
  explicit TorchState(torch::nn::Module* model, torch::optim::Optimizer* optimizer = nullptr);
  ~TorchState() override;

  // Before run(). A number, or anything else that is its bytes: no pointers. Throws
  // Error(invalid_argument) for a name that is taken.
  template <class T>
  TorchState& add(const std::string& name, T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    return add_bytes(name, &value, sizeof value);
  }
  TorchState& add(ElasticSampler& sampler);

  void save() override;
  // Parameters and buffers keep their memory: who has a reference to one sees the old values.
  // Gradients are none afterwards.
  void restore() override;
  // Throws Error(mismatch) on every rank where names or sizes of the numbers differ.
  void sync() override;

 private:
  class Copy;
  TorchState& add_bytes(const std::string& name, void* value, std::size_t bytes);
  void reset() override;
  std::string values() const;
  void set_values(const std::string& bytes);

  torch::nn::Module* const model_;
  torch::optim::Optimizer* const optimizer_;
  std::map<std::string, std::pair<void*, std::size_t>> numbers_;
  std::vector<ElasticSampler*> samplers_;
  std::unique_ptr<Copy> copy_;
};

struct RunOptions {
  // For the init() that follows an error.
  InitOptions init{};
  // So many errors in a row without a commit between: then run() throws the last. An error that
  // comes again each time would else be repeated for ever. At least 1.
  int max_failures = 3;
};

// Calls `train` until it returns, on all ranks together, between init() and shutdown() and before
// any collective. First the state becomes rank 0's. `train` may throw an Error that all ranks may
// have survived: mismatch, peer_lost of a rank that left, timeout, unavailable, internal. Then the
// state goes back to its last commit, and the ranks leave the job and join it again. Their part of
// it is gone: process sets that are not in options.init, handles, DistributedOptimizers. Samplers
// are reset, the state becomes rank 0's, and `train` is called again. All ranks must get such an
// error or leave `train` by another way that others see: one that returns has left the job for
// them. Everything else that `train` throws, run() throws too.
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

}  // namespace elastic
}  // namespace hvd
