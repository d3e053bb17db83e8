// The driver of an engine takes one step of the Scheduler after the other.
#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "worker/hvd/engine/engine.h"
#include "worker/hvd/gpu/exit_gate.h"

namespace hvdrun {
namespace {

// A rank that waits for others looks at itself so often.
constexpr std::chrono::seconds kAwhile{60};

}  // namespace

void Engine::loop() {
  while (true) {
    {
      const MutexLock lock(mutex_);
      while (occupancy_ != Occupancy::free || (scheduler_.idle() && !stopping_)) work_.wait(mutex_);
      if (scheduler_.idle()) return;
      occupancy_ = Occupancy::working;
    }
    tenure_ = Tenure::lasts;
    drive(nullptr, false);
  }
}

// Until `until` is done, or nothing can be done at the moment.
void Engine::drive(const Entry* until, bool may_spin) {
  using Kind = Scheduler::Step::Kind;
  while (true) {
    Scheduler::Step step;
    {
      const MutexLock lock(mutex_);
      if (until != nullptr && until->done) return;
      if (until == nullptr && tenure_ == Tenure::over) return;
      step = scheduler_.next(Clock::now(), until != nullptr || waiters_ > 0 || stopping_);
      if (step.kind == Kind::none) {
        if (until == nullptr) occupancy_ = Occupancy::free;
        return;
      }
      if (step.kind == Kind::wait) {
        occupancy_ = Occupancy::lingering;
        work_.wait_until(mutex_, step.until);
        occupancy_ = Occupancy::working;
        continue;
      }
      occupancy_ = step.kind == Kind::await ? Occupancy::awaiting : Occupancy::working;
    }
    try {
      switch (step.kind) {
        case Kind::run:
          run(step.batch, may_spin, Agreed::no);
          break;
        case Kind::negotiate:
          negotiate();
          break;
        default:
          await();
      }
    } catch (const hvd::Error& error) {
      fail_all(error);
    } catch (const std::exception& trouble) {
      fail_all(tell_others(trouble));
    }
    continue_callers();
  }
}

void Engine::finish(const std::shared_ptr<Entry>& entry, std::shared_ptr<const hvd::Error> error) {
  if (error) scheduler_.failed(entry);
  entry->error = std::move(error);
  entry->done = true;
  continuations_.release(*entry);
  done_.notify_all();
}

// Calls what then() has been given, of operations that are done.
void Engine::continue_callers() {
  std::vector<Continuations::Body> bodies;
  {
    const MutexLock lock(mutex_);
    bodies = continuations_.take();
  }
  if (bodies.empty()) return;
  {
    // They may be LibTorch's, on a GPU: exit() waits for one that is under way.
    const DriverPass pass;
    for (const auto& body : bodies) body();
  }
  const MutexLock lock(mutex_);
  continuations_.returned(bodies);
  done_.notify_all();
}

// This rank has operations that others lack; they, or it, must submit something.
void Engine::await() {
  auto until = Clock::now() + kAwhile;
  Clock::time_point slow_at = Clock::time_point::max();
  std::optional<Clock::time_point> deadline;
  {
    const MutexLock lock(mutex_);
    if (!scheduler_.pending().empty()) {
      const Clock::time_point oldest = scheduler_.pending().front()->submitted;
      deadline = oldest + options_.timeout;
      slow_at = stalls_.next(oldest);
    }
  }
  if (deadline) until = std::min({until, *deadline, slow_at});
  const auto limit = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
  const bool others = communicator_->await_others(std::max(limit, std::chrono::milliseconds(0)));
  if (deadline && !others && Clock::now() >= *deadline) give_up_waiting();
  if (!others && Clock::now() >= slow_at) {
    stalls_.told();
    tell_stalled();
  }
  const MutexLock lock(mutex_);
  occupancy_ = Occupancy::working;
  if (others) scheduler_.must_negotiate();
}

// The oldest operation has waited for too long: the end of this communicator, on all ranks.
void Engine::give_up_waiting() {
  std::string missing;
  {
    const MutexLock lock(mutex_);
    constexpr std::size_t kMostNamed = 8;
    const auto ranks = ranks_without(peers_.offers, scheduler_.pending().front()->name);
    for (std::size_t i = 0; i < std::min(ranks.size(), kMostNamed); ++i)
      missing += (i == 0 ? "" : ", ") + rank_text(ranks[i]);
    if (ranks.size() > kMostNamed)
      missing += " and " + std::to_string(ranks.size() - kMostNamed) + " more";
  }
  communicator_->abort(
      {hvd::ErrorCode::timeout,
       "waited " + seconds_text(options_.timeout) + " for " + missing + ", which did not call it"});
  communicator_->await_others(std::chrono::milliseconds(0));  // tells the others, and throws
}

}  // namespace hvdrun
