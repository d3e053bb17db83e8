// Whatever hosts are listed, and whoever is lost meanwhile: once nothing happens any more, the job
// has the ranks that it is to have.
#include <algorithm>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "coordinator/elastic/elastic_job.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::uint32_t kHosts = 5;

class ListedWalk {
 public:
  ListedWalk(std::uint32_t seed, std::uint32_t min_np, std::uint32_t max_np, bool horovod = false)
      : random_(seed), max_np_(max_np), horovod_(horovod), job_(table(), min_np, seconds(600)) {
    job_.hosts_change(max_np);
    if (horovod) job_.follow_horovod({name(0), name(0), name(1), name(1)});
    for (std::uint32_t host = 0; host < 2; ++host) listed_.push_back({host, 2});
    is_there_ = {true, true};
    for (std::uint32_t slot = 0; slot < 4; ++slot) {
      job_.entered(slot);
      hosts_of_[slot] = slot / 2;
      order_.push_back(slot);
    }
    job_.opened(now_);
    look();
  }

  void step() {
    now_ += milliseconds(below(400));
    job_.tick(now_);
    look();
    switch (below(8)) {
      case 0:
        list();
        break;
      case 1:
        lose(below(slots()));
        break;
      case 2:
        for (std::uint32_t host = 0; host < hosts(); ++host) open(host);
        break;
      default:
        move(below(slots()));
    }
    look();
  }

  // Everybody does what is asked of them, until nothing is left to do.
  void settle() {
    for (int round = 0; round < 12; ++round) {
      now_ += seconds(5);
      job_.tick(now_);
      look();
      for (std::uint32_t host = 0; host < hosts(); ++host) open(host);
      for (std::uint32_t slot = 0; slot < slots(); ++slot) {
        if (job_.state_of(slot) == SlotState::dying || job_.state_of(slot) == SlotState::ending)
          end(slot);
        look();
        move(slot);
        look();
      }
    }
  }

  void check() {
    REQUIRE_FALSE(job_.is_over());
    std::uint32_t room = max_np_;
    std::uint32_t expected = 0;
    for (const ElasticJob::Host& host : listed_) {
      std::uint32_t sound = 0;
      std::uint32_t known = 0;
      if (left_out_.contains(host.index)) continue;
      for (const auto& [slot, its_host] : hosts_of_) {
        if (its_host != host.index) continue;
        ++known;
        sound += job_.state_of(slot) != SlotState::left_out;
      }
      const std::uint32_t usable =
          std::min(host.slots, sound + (host.slots > known ? host.slots - known : 0));
      expected += std::min(usable, room);
      room -= std::min(usable, room);
    }
    const auto is = [this](SlotState state) {
      std::uint32_t count = 0;
      for (std::uint32_t slot = 0; slot < slots(); ++slot) count += job_.state_of(slot) == state;
      return count;
    };
    CAPTURE(expected, is(SlotState::left_out));
    if (horovod_ && expected < 2) return;  // hosts are waited for
    REQUIRE(order_.size() == is(SlotState::member));
    // Those that leave stay while the others would be too few.
    if (expected >= 2) REQUIRE(order_.size() == expected);
    for (const SlotState state : {SlotState::dying, SlotState::gone, SlotState::starting,
                                  SlotState::at_door, SlotState::ending})
      REQUIRE(is(state) == 0);
    std::set<std::uint32_t> listed;
    for (const ElasticJob::Host& host : listed_) listed.insert(host.index);
    if (expected >= 2)
      for (const std::uint32_t slot : order_) REQUIRE(listed.contains(hosts_of_.at(slot)));
  }
  bool is_over() const { return job_.is_over(); }

 private:
  static RankTable table() { return {{{name(0), 2}, {name(1), 2}}, 4}; }
  static std::string name(std::uint32_t host) { return "h" + std::to_string(host); }
  std::uint32_t below(std::uint32_t end) { return static_cast<std::uint32_t>(random_() % end); }
  std::uint32_t slots() const { return static_cast<std::uint32_t>(hosts_of_.size()); }

  void list() {
    std::vector<ElasticJob::Host> listed;
    for (std::uint32_t host = 0; host < kHosts; ++host) {
      if (below(2) == 0) continue;
      // New ones have the next numbers.
      const std::uint32_t index = std::min<std::uint32_t>(host, hosts());
      if (index == hosts()) {
        job_.add_host({name(index), 1});
        is_there_.push_back(false);
      }
      listed.push_back({index, 1 + below(3)});
    }
    std::shuffle(listed.begin(), listed.end(), random_);
    if (listed.empty()) return;
    listed_ = listed;
    job_.list_hosts(listed_, now_);
  }
  void open(std::uint32_t host) {
    if (is_there_[host]) return;
    is_there_[host] = true;
    job_.host_back(host, now_);
    look();
  }
  std::uint32_t hosts() const { return static_cast<std::uint32_t>(is_there_.size()); }
  void lose(std::uint32_t slot) {
    switch (job_.state_of(slot)) {
      case SlotState::member:
        // The state has to survive.
        if (order_.size() < 3 || ++losses_ > (horovod_ ? 2 : 6)) return;
        if (below(2) == 0) return job_.dying(slot, now_);
        return end(slot);
      case SlotState::starting:
      case SlotState::at_door:
      case SlotState::dying:
      case SlotState::ending:
        return end(slot);
      default:
        return;
    }
  }
  void end(std::uint32_t slot) {
    // One that has been asked to end has not failed.
    if (horovod_ && job_.state_of(slot) != SlotState::ending) left_out_.insert(hosts_of_.at(slot));
    job_.lost(slot, "was killed", now_);
  }
  void move(std::uint32_t slot) {
    const SlotState state = job_.state_of(slot);
    if (state == SlotState::starting) job_.at_door(slot, true, now_);
    if (state == SlotState::member && meets_) job_.at_door(slot, true, now_);
  }

  void look() {
    for (auto decisions = job_.take_decisions(); !decisions.empty();
         decisions = job_.take_decisions())
      obey(decisions);
    // Losses have them meet without being asked.
    meets_ = meets_ || !job_.is_open();
  }

  void obey(const std::vector<ElasticJob::Decision>& decisions) {
    using What = ElasticJob::Decision::What;
    for (const ElasticJob::Decision& decision : decisions) {
      switch (decision.what) {
        case What::add_slot:
          REQUIRE(decision.slot == slots());
          hosts_of_[decision.slot] = decision.host;
          break;
        case What::start_slot:
          REQUIRE(is_there_[hosts_of_.at(decision.slot)]);
          REQUIRE_FALSE(left_out_.contains(hosts_of_.at(decision.slot)));
          REQUIRE((decision.promised != nullptr) == horovod_);
          promised_[decision.slot] = decision.promised;
          meets_ = true;  // a loss has the others meet
          break;
        case What::begin_epoch:
          // A newcomer has been told before that it would be so.
          for (const std::uint32_t slot : decision.dealt.slots)
            if (horovod_ && std::find(order_.begin(), order_.end(), slot) == order_.end())
              REQUIRE(promised_.at(slot)->slots == decision.dealt.slots);
          order_ = decision.dealt.slots;
          REQUIRE(order_.size() >= 2);
          meets_ = false;
          job_.opened(now_);
          break;
        case What::ask_meeting:
          meets_ = true;
          break;
        case What::retire_slot:
          REQUIRE(job_.state_of(decision.slot) == SlotState::ending);
          break;
        default:
          break;
      }
    }
  }

  std::mt19937 random_;
  std::uint32_t max_np_;
  bool horovod_;
  ElasticJob job_;
  TimePoint now_{seconds(1000)};
  std::vector<bool> is_there_;  // hosts by number
  std::vector<ElasticJob::Host> listed_;
  std::map<std::uint32_t, std::uint32_t> hosts_of_;  // the hosts of slots
  std::vector<std::uint32_t> order_;
  std::map<std::uint32_t, std::shared_ptr<const Assignment>> promised_;  // by slot
  std::set<std::uint32_t> left_out_;                                     // hosts
  bool meets_ = false;
  int losses_ = 0;
};

void walk_often(bool horovod, int least) {
  std::mt19937 random(20261129);
  int checked = 0;
  for (int round = 0; round < 400; ++round) {
    CAPTURE(round);
    ListedWalk walk(static_cast<std::uint32_t>(random()), 2,
                    2 + static_cast<std::uint32_t>(random() % 8), horovod);
    for (int step = 0; step < 120; ++step) {
      CAPTURE(step);
      walk.step();
    }
    walk.settle();
    if (walk.is_over()) continue;  // all at once were lost
    walk.check();
    ++checked;
  }
  CHECK(checked > least);
}

TEST_CASE("whatever hosts are listed, the job comes to have its ranks", "[elastic]") {
  walk_often(false, 300);
}

TEST_CASE("whatever hosts are listed, newcomers of a Horovod program get what they were promised",
          "[elastic][horovod]") {
  walk_often(true, 200);
}

}  // namespace
}  // namespace hvdrun
