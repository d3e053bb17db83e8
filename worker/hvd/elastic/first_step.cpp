#include "worker/hvd/elastic/first_step.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>

#include <hvd/elastic_run.h>

namespace hvdrun {

namespace {
std::atomic<bool> g_heard{false};
}  // namespace

bool is_unheard() noexcept { return came_late() && !g_heard; }
void set_heard() noexcept { g_heard = true; }

FirstStep& first_step() {
  static FirstStep the_one;
  return the_one;
}

void FirstStep::begin(std::vector<int> newcomers, std::function<void()> arrive, const void* state) {
  newcomers_ = std::move(newcomers);
  arrive_ = std::move(arrive);
  state_ = state;
  ended_ = false;
  waited_ = 0;
}

void FirstStep::end() {
  ended_ = ended_ || is_on();
  newcomers_.clear();
  arrive_ = nullptr;
}

bool FirstStep::counts(int rank) const {
  return !std::binary_search(newcomers_.begin(), newcomers_.end(), rank);
}

int FirstStep::contributors(const std::vector<int>& ranks) const {
  return static_cast<int>(
      std::count_if(ranks.begin(), ranks.end(), [this](int rank) { return counts(rank); }));
}

void FirstStep::catch_up() {
  if (!is_on()) return;
  const auto begin = std::chrono::steady_clock::now();
  const std::function<void()> arrive = std::move(arrive_);
  arrive();
  waited_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  end();
}

bool FirstStep::take_ended() { return std::exchange(ended_, false); }

}  // namespace hvdrun

namespace hvd::elastic {

int contributors(const ProcessSet& set) {
  const hvdrun::FirstStep& step = hvdrun::first_step();
  if (!step.is_on() && set.id == 0) return size();
  return step.contributors(process_set_ranks(set));
}

int contributor_rank() {
  const hvdrun::FirstStep& step = hvdrun::first_step();
  const int own = rank();
  if (!step.is_on()) return own;
  if (!step.counts(own)) return -1;
  int number = 0;
  for (int other = 0; other < own; ++other) number += step.counts(other) ? 1 : 0;
  return number;
}

void catch_up() { hvdrun::first_step().catch_up(); }

double state_wait() noexcept { return hvdrun::first_step().seconds_waited(); }

}  // namespace hvd::elastic
