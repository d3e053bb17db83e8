// elastic_phase PHASE SLOT DELAY: trains 30 steps, and one process dies by SIGKILL in the phase,
// DELAY microseconds after it has begun.
//
// Of the slot's first process:
//   idle       between two steps             allreduce  in an operation of 8 MiB
//   commit     as it copies its state        agree      as all agree on the wish to change
//   shutdown   in hvd::shutdown()
// Of another, after that slot's first process has died in its step 3:
//   restore    a survivor on its way back    meet       a survivor on its way to the others
//   start      the new one before init       door       the new one, waiting to be let in
//   receive    the new one, taking the state send       the survivor that sends it
//
// "step N rank R of S: V" after each step, where V must be N.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <signal.h>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include <hvd/elastic_run.h>

namespace {

constexpr int kSteps = 30;

int number_of(const char* name) {
  const char* const text = std::getenv(name);
  return text != nullptr ? std::atoi(text) : 0;
}

struct Plan {
  std::string phase;
  int slot = 0;
  std::chrono::microseconds delay{};
  int own_slot = number_of("HVD_RANK");
  int start = number_of("HVD_START");
  int step = 0;

  bool is(const char* name) const { return phase == name; }
  // The victim is the first process of its slot.
  bool is_first() const { return own_slot == slot && start == 0; }
  bool is_next() const { return own_slot == slot && start == 1; }
  // The one that sends the state to the new one, as the lowest rank: others send it after that.
  bool is_sender() const { return own_slot == (slot == 0 ? 1 : 0) && start == 0; }
  // One survivor: the next slot.
  bool is_survivor() const { return own_slot == (slot + 1) % 4 && start == 0; }
  void die() const {
    std::thread([delay = delay] {
      std::this_thread::sleep_for(delay);
      ::kill(::getpid(), SIGKILL);
    }).detach();
    if (delay.count() == 0)
      for (;;) ::pause();
  }
};

class PhaseState : public hvd::elastic::MemoryState {
 public:
  explicit PhaseState(const Plan& plan) : plan_(plan) {}
  void save() override {
    if (plan_.is("commit") && plan_.is_first() && plan_.step == 5) plan_.die();
    MemoryState::save();
    if (plan_.is("agree") && plan_.is_first() && plan_.step == 5) plan_.die();
  }
  void restore() override {
    if ((plan_.is("restore") || plan_.is("meet")) && plan_.is_survivor() && plan_.step > 0 &&
        plan_.step < 6) {
      if (plan_.is("restore")) plan_.die();
      MemoryState::restore();
      if (plan_.is("meet")) plan_.die();
      return;
    }
    MemoryState::restore();
  }
  void sync() override {
    const bool sends = hvd::rank() == source();
    if (plan_.is("send") && sends && plan_.is_sender() && plan_.step > 0) plan_.die();
    if (plan_.is("receive") && !sends && plan_.is_next()) plan_.die();
    MemoryState::sync();
  }

 private:
  const Plan& plan_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 64;
  Plan plan;
  plan.phase = argv[1];
  plan.slot = std::atoi(argv[2]);
  plan.delay = std::chrono::microseconds(std::atoi(argv[3]));
  const bool dies_first = plan.is("restore") || plan.is("meet") || plan.is("start") ||
                          plan.is("door") || plan.is("receive") || plan.is("send");
  if (plan.is("start") && plan.is_next()) plan.die();
  if (plan.is("door") && plan.is_next()) {
    plan.delay += std::chrono::milliseconds(1);
    plan.die();
  }
  hvd::init();
  std::vector<double> value(1U << 18, 0.0);
  int step = 0;
  PhaseState state(plan);
  state.add("value", value.data(), value.size() * sizeof(double)).add("step", step);
  hvd::elastic::run(state, [&] {
    std::vector<float> large(1U << 21, 1.0F);
    while (step < kSteps) {
      plan.step = step;
      if (dies_first && plan.is_first() && step == 3) ::kill(::getpid(), SIGKILL);
      if (plan.is("idle") && plan.is_first() && step == 5) plan.die();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      if (plan.is("allreduce") && plan.is_first() && step == 5) plan.die();
      hvd::allreduce(large.data(), large.data(), large.size(), hvd::ReduceOp::average);
      for (double& one : value) one += large[0];
      ++step;
      std::printf("step %d rank %d of %d: %g\n", step, hvd::rank(), hvd::size(), value[7]);
      std::fflush(stdout);
      state.commit();
    }
  });
  if (plan.is("shutdown") && plan.is_first()) plan.die();
  hvd::shutdown();
  if (plan.is("shutdown") && plan.is_first()) ::pause();
  return value[7] == kSteps ? 0 : 1;
}
