// Whatever happens to an elastic job, in whatever order: what it decides makes sense.
#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "coordinator/elastic/elastic_job.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

using Slots = std::vector<std::uint32_t>;
using std::chrono::milliseconds;

// The processes of a job, as they are, and an ElasticJob that hears of them.
class Walk {
 public:
  Walk(std::uint32_t seed, RankTable ranks, std::uint32_t min_np)
      : random_(seed),
        table_(std::move(ranks)),
        min_np_(min_np),
        job_(table_, min_np, std::chrono::seconds(60)) {
    for (std::uint32_t slot = 0; slot < table_.size(); ++slot) {
      is_[slot] = Is::member;
      members_.push_back(slot);
      job_.entered(slot);
    }
    job_.opened(now_);
  }

  void step() {
    switch (below(10)) {
      case 0:
        pass(milliseconds(below(15'000)));
        break;
      case 1:
        if (const auto next = job_.next_deadline()) pass(*next - now_);
        break;
      case 2:
        job_.opened(now_);
        break;
      case 3:
        if (below(20) == 0) lose_host(below(static_cast<std::uint32_t>(table_.hosts().size())));
        if (below(3) == 0) bring_back(below(static_cast<std::uint32_t>(table_.hosts().size())));
        break;
      default:
        act(below(table_.size()));
    }
    look();
  }
  // Everybody says goodbye and ends; who is to be killed ends so.
  void end() {
    for (int round = 0; round < 10 && !over_; ++round) {
      for (std::uint32_t slot = 0; slot < table_.size() && !over_; ++slot) {
        if (is_[slot] == Is::member && waits_.contains(slot)) door(slot, false);
        if (is_[slot] == Is::member) leave(slot);
        if (is_[slot] == Is::leaving) finish(slot);
        if (is_[slot] == Is::dying) lose(slot);
        look();
      }
    }
    REQUIRE(over_);
    REQUIRE(job_.is_over());
  }

 private:
  enum class Is : std::uint8_t { member, dying, leaving, done, gone, away, starting, newcomer };

  std::uint32_t below(std::uint32_t end) { return static_cast<std::uint32_t>(random_() % end); }
  std::size_t count(Is what) const {
    return static_cast<std::size_t>(std::count_if(
        is_.begin(), is_.end(), [what](const auto& one) { return one.second == what; }));
  }
  bool all_wait() const {
    return std::all_of(is_.begin(), is_.end(), [this](const auto& one) {
      return one.second != Is::member || waits_.contains(one.first);
    });
  }

  void pass(TimePoint::duration time) {
    now_ += time;
    job_.tick(now_);
  }
  void act(std::uint32_t slot) {
    switch (is_[slot]) {
      case Is::member:
        if (below(to_end_.contains(slot) ? 2 : 8) == 0)
          return below(2) == 0 ? lose(slot) : die(slot);
        if (waits_.contains(slot)) return below(8) == 0 ? door(slot, false) : void();
        return below(8) == 0 ? leave(slot) : door(slot, true);
      case Is::dying:
        // Nothing that is said of it but its end counts.
        if (below(4) == 0) return job_.leaves(slot, now_);
        if (below(4) == 0) return job_.at_door(slot, below(2) == 0, now_);
        return below(4) == 0 ? job_.dying(slot, now_) : lose(slot);
      case Is::leaving:
        if (below(4) == 0) return lose(slot);
        return below(4) == 0 ? door(slot, true) : finish(slot);
      case Is::starting:
        return below(4) == 0 ? lose(slot) : door(slot, true);
      case Is::newcomer:
        return below(2) == 0 ? lose(slot) : door(slot, false);
      case Is::gone:
      case Is::away:
      case Is::done:
        return;
    }
  }
  void die(std::uint32_t slot) {
    gone(slot);
    is_[slot] = Is::dying;
    job_.dying(slot, now_);
  }
  void lose(std::uint32_t slot) {
    gone(slot);
    job_.lost(slot, "was killed", now_);
  }
  void lose_host(std::uint32_t host) {
    Slots slots;
    for (const RankPlace& place : table_.on_host(host)) slots.push_back(place.rank);
    const bool may_return = below(3) != 0;
    for (const std::uint32_t slot : slots) {
      if (is_[slot] != Is::done) gone(slot);
      if (!may_return) lost_for_ever_.insert(slot);
    }
    job_.host_lost(slots, "host is lost", may_return, now_);
    for (const std::uint32_t slot : slots)
      if (job_.state_of(slot) == SlotState::away) is_[slot] = Is::away;
  }
  void bring_back(std::uint32_t host) {
    if (job_.is_over()) return;
    Slots slots;
    for (const RankPlace& place : table_.on_host(host)) slots.push_back(place.rank);
    for (const std::uint32_t slot : slots) {
      REQUIRE((job_.state_of(slot) == SlotState::away) == (is_[slot] == Is::away));
      if (is_[slot] != Is::away) continue;
      REQUIRE_FALSE(lost_for_ever_.contains(slot));
      is_[slot] = Is::gone;
    }
    job_.host_back(host, now_);
  }
  void gone(std::uint32_t slot) {
    is_[slot] = Is::gone;
    waits_.erase(slot);
    to_end_.erase(slot);
    came_back_.erase(slot);
  }
  void leave(std::uint32_t slot) {
    is_[slot] = Is::leaving;
    job_.leaves(slot, now_);
  }
  void finish(std::uint32_t slot) {
    is_[slot] = Is::done;
    job_.done(slot, now_);
  }
  void door(std::uint32_t slot, bool waits) {
    if (is_[slot] == Is::leaving) came_back_.insert(slot);
    if (waits) {
      if (is_[slot] != Is::member) is_[slot] = Is::newcomer;
      waits_.insert(slot);
    } else {
      if (is_[slot] != Is::member)
        is_[slot] = came_back_.contains(slot) ? Is::leaving : Is::starting;
      waits_.erase(slot);
      came_back_.erase(slot);
    }
    job_.at_door(slot, waits, now_);
  }

  // Where no member is left those who have come back are members again.
  void take_back() {
    if (count(Is::member) + count(Is::leaving) + count(Is::dying) > 0) return;
    for (const std::uint32_t slot : members_)
      if (is_[slot] == Is::newcomer && came_back_.erase(slot) > 0) is_[slot] = Is::member;
  }
  void look() {
    take_back();
    for (const ElasticJob::Decision& decision : job_.take_decisions()) {
      REQUIRE_FALSE(over_);
      take(decision);
    }
    REQUIRE(job_.is_over() == over_);
    job_.tick(now_);
    REQUIRE(job_.take_decisions().empty());
    const auto next = job_.next_deadline();
    if (next) REQUIRE(*next > now_);
    if (over_) REQUIRE_FALSE(next);
    if (over_ || count(Is::member) == 0 || !all_wait()) return;
    // They wait for too few, and not in vain; or a moment for those who may come back.
    REQUIRE(next);
    if (count(Is::leaving) > 0 && *next <= now_ + ElasticJob::kGoodbye) return;
    REQUIRE(count(Is::member) + count(Is::newcomer) < needed());
    REQUIRE(count(Is::dying) + count(Is::gone) + count(Is::away) + count(Is::starting) +
                count(Is::leaving) >
            0);
  }
  std::size_t needed() const {
    return std::min<std::size_t>(min_np_, table_.size() - count(Is::done));
  }

  void take(const ElasticJob::Decision& decision) {
    using What = ElasticJob::Decision::What;
    switch (decision.what) {
      case What::start_slot:
        REQUIRE(is_[decision.slot] == Is::gone);
        REQUIRE_FALSE(lost_for_ever_.contains(decision.slot));
        is_[decision.slot] = Is::starting;
        ++starts_[decision.slot];
        REQUIRE(job_.start_of(decision.slot) == starts_[decision.slot]);
        break;
      case What::end_slot:
        REQUIRE(is_[decision.slot] == Is::member);
        REQUIRE_FALSE(waits_.contains(decision.slot));
        to_end_.insert(decision.slot);
        break;
      case What::begin_epoch:
        begin(decision.dealt);
        break;
      case What::ask_meeting:
        REQUIRE_FALSE(asked_);
        REQUIRE(count(Is::newcomer) > 0);
        asked_ = true;
        break;
      case What::say:
        REQUIRE_FALSE(decision.text.empty());
        break;
      case What::add_slot:  // test_elastic_listed_walk.cpp
      case What::retire_slot:
      case What::open_hosts:
      case What::too_many:
        FAIL("the hosts are as they are");
        break;
      case What::too_few:
        REQUIRE(all_wait());
        over_ = true;
        break;
      case What::all_lost:
      case What::finished:
        REQUIRE(count(Is::member) == 0);
        REQUIRE(count(Is::leaving) + count(Is::dying) == 0);
        over_ = true;
        break;
    }
  }
  void begin(const Assignment& dealt) {
    REQUIRE(all_wait());
    Slots old;
    Slots all;
    for (const std::uint32_t slot : members_)
      if (is_[slot] == Is::member) old.push_back(slot);
    for (const auto& [slot, is] : is_)
      if (is == Is::member || is == Is::newcomer) all.push_back(slot);
    REQUIRE_FALSE(old.empty());
    REQUIRE(all.size() >= needed());
    REQUIRE(std::is_permutation(all.begin(), all.end(), dealt.slots.begin(), dealt.slots.end()));
    REQUIRE(dealt.places.size() == all.size());
    REQUIRE(std::count(old.begin(), old.end(), dealt.slots.front()) == 1);
    for (const std::uint32_t slot : all) is_[slot] = Is::member;
    members_ = dealt.slots;
    waits_.clear();
    to_end_.clear();
    came_back_.clear();
    asked_ = false;
  }

  std::mt19937 random_;
  RankTable table_;
  std::uint32_t min_np_;
  ElasticJob job_;
  TimePoint now_{std::chrono::seconds(1000)};
  std::map<std::uint32_t, Is> is_;
  std::map<std::uint32_t, std::uint32_t> starts_;
  Slots members_;                          // of the epoch, by rank
  std::set<std::uint32_t> waits_;          // at their doors
  std::set<std::uint32_t> came_back_;      // to them, after a goodbye
  std::set<std::uint32_t> to_end_;         // are to be killed
  std::set<std::uint32_t> lost_for_ever_;  // their hosts are
  bool asked_ = false;
  bool over_ = false;
};

TEST_CASE("whatever happens, what an elastic job decides makes sense", "[elastic]") {
  std::mt19937 random(20260835);
  const auto below = [&random](std::uint32_t end) {
    return static_cast<std::uint32_t>(random() % end);
  };
  for (int round = 0; round < 400; ++round) {
    std::vector<HostSlots> hosts;
    std::uint32_t slots = 0;
    for (std::uint32_t left = 1 + below(3); left > 0; --left) {
      hosts.push_back({"h" + std::to_string(left), 1 + below(3)});
      slots += hosts.back().slots;
    }
    CAPTURE(round);
    Walk walk(static_cast<std::uint32_t>(random()), RankTable(std::move(hosts), slots),
              1 + below(slots));
    for (int step = 0; step < 150; ++step) {
      CAPTURE(step);
      walk.step();
    }
    walk.end();
  }
}

}  // namespace
}  // namespace hvdrun
