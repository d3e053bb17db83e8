// The next step of a rank with the operations that were submitted to it. Sans-I/O, and not
// thread-safe: the engine's mutex guards it.
//
// Ranks run batches: an operation alone, or several small allreduces as one. A rank says in the
// batch's first meeting which one it means, so ranks that mean the same need not negotiate: they
// run what their common history predicts as soon as all of it was submitted. Where they mean
// different things they learn it there, exchange what each of them has, and run what all have.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "worker/hvd/engine/batch_history.h"
#include "worker/hvd/engine/entry.h"
#include "worker/hvd/engine/negotiation.h"

namespace hvdrun {

class Scheduler {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // While ranks learn what runs together: as long may nothing be submitted before they ask.
  static constexpr std::chrono::milliseconds kLearningPause{5};
  // As long may nothing be submitted before a prediction is given up that has come true often. A
  // program that waits for an operation gives it up at once; this is for those that only poll.
  static constexpr std::chrono::milliseconds kPause{100};
  // Larger ones gain nothing from company.
  static constexpr std::uint64_t kMostFused = 1U << 20U;

  Scheduler(std::size_t ranks, std::uint64_t fusion_bytes)
      : ranks_(ranks), fusion_bytes_(fusion_bytes) {}

  // Throws Error(invalid_argument) when an operation of this name is under way.
  std::shared_ptr<Entry> add(Operation operation, TimePoint now);

  // An operation that is run without being added, while nothing is pending: what the ranks compare
  // before they run it, its place in the order of those without a name, and its end. Where the
  // others mean something else it is added after all.
  struct Direct {
    BatchHistory::Member member{};  // the name as in Entry
    std::uint64_t fingerprint = 0;
  };
  static Direct look_at(const Operation& operation);
  void begin(Direct& direct);
  void ran(const Direct& direct);
  void failed(const Direct& direct);
  std::shared_ptr<Entry> add(Operation operation, const Direct& direct, TimePoint now);
  // After what is pending this rank takes part in whatever the others run; it adds nothing more
  // until all_joined().
  void join();
  bool joining() const { return joining_; }
  bool joined() const { return joining_ && pending_.empty(); }

  bool idle() const { return pending_.empty() && !joining_; }
  const std::list<std::shared_ptr<Entry>>& pending() const { return pending_; }

  struct Step {
    enum class Kind : std::uint8_t {
      none,       // nothing to do
      run,        // `batch`, if the others mean it too
      negotiate,  // with all
      wait,       // for more operations, until `until`
      await,      // for more operations, here or elsewhere: this rank's are not everybody's
    };
    Kind kind = Kind::none;
    Entries batch{};
    TimePoint until{};
  };
  // `hurried`: somebody waits for an operation and may submit nothing more before it is done.
  Step next(TimePoint now, bool hurried);
  // A step `wait` would be another one now; add() may change that.
  bool ready() const { return settled_ && missing_ == 0; }

  // The ranks compare this before they run the batch.
  static std::uint64_t fingerprint(const Entries& batch);

  // A batch has run; it is pending no more.
  void ran(const Entries& batch);
  // It has failed, on every rank.
  void failed(const std::shared_ptr<Entry>& entry);
  // The others meant something else, or wait for this rank.
  void must_negotiate() { must_negotiate_ = true; }

  // The words to the others, and what came of them.
  Offer offer();
  void agreed(const std::vector<Offer>& offers, const Agreement& agreement);
  // Null for what is not pending here.
  std::shared_ptr<Entry> find(std::uint64_t name) const;
  // All ranks have joined: they begin anew.
  void all_joined();

 private:
  bool may_fuse(const Operation& operation) const;
  std::shared_ptr<Entry> insert(Operation operation, const BatchHistory::Member& member,
                                TimePoint now);
  void settle();
  void expect();
  void remove(const std::shared_ptr<Entry>& entry);
  Entries expected() const;

  const std::size_t ranks_;
  const std::uint64_t fusion_bytes_;
  BatchHistory history_;

  std::list<std::shared_ptr<Entry>> pending_;  // in the order of submission
  std::unordered_map<std::uint64_t, std::list<std::shared_ptr<Entry>>::iterator> by_name_;
  std::uint64_t submitted_ = 0;
  std::uint64_t direct_ = 0;  // name of what runs without having been added
  std::uint64_t unnamed_submitted_ = 0;
  std::uint64_t unnamed_done_ = 0;
  std::uint64_t fusible_bytes_ = 0;  // of what is pending
  TimePoint last_submit_{};

  // The prediction, with the names of its members as they are here.
  bool expecting_ = false;
  bool settled_ = false;  // the ranks look for no better one
  bool looked_ = false;   // the prediction is for the state as it is
  std::vector<BatchHistory::Member> expected_;
  std::unordered_map<std::uint64_t, std::uint64_t> expected_names_;
  std::size_t missing_ = 0;

  bool joining_ = false;
  bool others_joined_ = false;
  bool must_negotiate_ = false;
  std::uint64_t offered_ = 0;  // submitted_ at the last offer
  bool starved_ = false;       // nothing came of it
};

}  // namespace hvdrun
