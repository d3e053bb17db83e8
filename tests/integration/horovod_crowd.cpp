#include "tests/integration/horovod_crowd.h"

#include <cstdio>
#include <deque>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "tests/integration/many_requests.h"

namespace hvdrun::test {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kAddressBytes = 136;  // of one peer, in a member's value

// The members that meet in one scope, and their barrier once each has found the others.
struct Meeting {
  std::string scope;
  std::uint32_t size = 0;
  std::vector<std::function<void()>> at_barrier;
};

class Member {
 public:
  struct Place {
    std::shared_ptr<Meeting> meeting;
    std::uint32_t rank = 0;
  };

  Member(ManyRequests& requests, std::string host, std::vector<Place> places, bool& faulty)
      : requests_(requests), host_(std::move(host)), places_(std::move(places)), faulty_(faulty) {
    begin();
  }
  bool done() const { return next_ == places_.size(); }

 private:
  const Meeting& meeting() const { return *places_[next_].meeting; }
  std::uint32_t rank() const { return places_[next_].rank; }
  void ask(const std::string& method, const std::string& key, const std::string& body,
           std::function<void(const HttpAnswer&)> then) {
    requests_.start(http_request(method, "/" + meeting().scope + "/" + key, "127.0.0.1", body),
                    std::move(then));
  }
  void expect(bool good) { faulty_ = faulty_ || !good; }

  void begin() {
    ask("PUT", "rank_" + std::to_string(rank()), host_, [this](const HttpAnswer& answer) {
      expect(answer.status == 200);
      get_name(0);
    });
  }
  // Once each, there or not.
  void get_name(std::uint32_t other) {
    if (other == rank()) return put_addresses();
    ask("GET", "rank_" + std::to_string(other), {}, [this, other](const HttpAnswer& answer) {
      expect(answer.status == 200 || (answer.status == 404 && answer.length == 0));
      get_name(other + 1);
    });
  }
  void put_addresses() {
    std::string value = std::to_string(rank()) + ";";
    value.resize(kAddressBytes * (meeting().size - 1), 'a');
    ask("PUT", std::to_string(rank()), value, [this](const HttpAnswer& answer) {
      expect(answer.status == 200);
      find(0);
    });
  }
  void find(std::uint32_t other) {
    if (other == rank()) ++other;
    if (other == meeting().size) return meet();
    ask("GET", std::to_string(other), {}, [this, other](const HttpAnswer& answer) {
      if (answer.status == 404) return requests_.after(10ms, [this, other] { find(other); });
      check(other, answer);
      // Gloo waits for a key, then gets it.
      ask("GET", std::to_string(other), {}, [this, other](const HttpAnswer& again) {
        check(other, again);
        find(other + 1);
      });
    });
  }
  void check(std::uint32_t other, const HttpAnswer& answer) {
    expect(answer.status == 200 && answer.length == kAddressBytes * (meeting().size - 1) &&
           answer.begin.starts_with(std::to_string(other) + ";"));
  }
  void meet() {
    auto& waiting = places_[next_].meeting->at_barrier;
    waiting.emplace_back([this] { leave(); });
    if (waiting.size() < meeting().size) return;
    for (const auto& go : std::exchange(waiting, {})) go();
  }
  void leave() {
    ask("DELETE", std::to_string(rank()), {}, [this](const HttpAnswer& answer) {
      expect(answer.status == 200);
      if (++next_ < places_.size()) begin();
    });
  }

  ManyRequests& requests_;
  std::string host_;
  std::vector<Place> places_;
  std::size_t next_ = 0;
  bool& faulty_;
};

}  // namespace

bool run_crowd(const CrowdOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  const auto meeting = [](const std::string& scope, std::uint32_t size) {
    return std::make_shared<Meeting>(Meeting{scope, size, {}});
  };
  const auto global = meeting("global", options.hosts * options.slots);
  std::vector<std::shared_ptr<Meeting>> cross;
  for (std::uint32_t slot = 0; slot < options.slots; ++slot)
    cross.push_back(meeting("cross_" + std::to_string(slot), options.hosts));
  ManyRequests requests(options.address, options.port);
  bool faulty = false;
  std::deque<Member> members;
  for (std::uint32_t host = 0; host < options.hosts; ++host) {
    const std::string name = "h" + std::to_string(host);
    const auto local = meeting("local_" + name, options.slots);
    for (std::uint32_t slot = 0; slot < options.slots; ++slot)
      members.emplace_back(
          requests, name,
          std::vector<Member::Place>{
              {global, host * options.slots + slot}, {local, slot}, {cross[slot], host}},
          faulty);
  }
  const bool in_time = requests.run(options.limit);
  std::size_t done = 0;
  for (const Member& member : members) done += member.done() ? 1 : 0;
  const auto time = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - begin);
  std::printf("crowd of %zu: %zu done, %zu requests, %zu lost, %ld ms%s%s\n", members.size(), done,
              requests.finished(), requests.lost(), static_cast<long>(time.count()),
              faulty ? ", wrong answers " : "", requests.first_trouble().c_str());
  return in_time && !faulty && requests.lost() == 0 && done == members.size();
}

}  // namespace hvdrun::test
