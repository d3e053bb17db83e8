#include "tests/integration/programs/horovod_crowd.h"

#include <atomic>
#include <cstdio>
#include <deque>
#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "tests/integration/programs/many_requests.h"

namespace hvdrun::test {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kAddressBytes = 136;  // of one peer, in a member's value

constexpr std::uint32_t kProcesses = 2;  // one alone would be slower than the store

// Counts that the processes of the crowd share.
struct Totals {
  std::atomic<std::size_t> done;
  std::atomic<std::size_t> finished;
  std::atomic<std::size_t> lost;
  std::atomic<bool> faulty;
  std::atomic<bool> late;
};

// The members that meet in one scope, and their barrier once each has found the others.
struct Meeting {
  std::string scope;
  std::uint32_t size = 0;
  std::atomic<std::uint32_t>& arrived;  // of all processes
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
    const auto& meeting = places_[next_].meeting;
    meeting->at_barrier.emplace_back([this] { leave(); });
    ++meeting->arrived;
    if (meeting->at_barrier.size() == 1) look(meeting);
  }
  // Members of another process may be the last to come.
  void look(const std::shared_ptr<Meeting>& meeting) {
    if (meeting->arrived < meeting->size)
      return requests_.after(10ms, [this, meeting] { look(meeting); });
    for (const auto& go : std::exchange(meeting->at_barrier, {})) go();
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

// Shared with the children that are forked later; never unmapped.
template <class T>
T* shared(std::size_t count) {
  void* const memory =
      ::mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("mmap");
  return new (memory) T[count]();
}

// The members of every kProcesses-th host from `first` on.
void run_part(const CrowdOptions& options, std::uint32_t first, std::atomic<std::uint32_t>* arrived,
              Totals& totals) {
  const auto meeting = [&arrived](const std::string& scope, std::uint32_t size) {
    return std::make_shared<Meeting>(Meeting{scope, size, *arrived++, {}});
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
    if (host % kProcesses != first) continue;
    for (std::uint32_t slot = 0; slot < options.slots; ++slot)
      members.emplace_back(
          requests, name,
          std::vector<Member::Place>{
              {global, host * options.slots + slot}, {local, slot}, {cross[slot], host}},
          faulty);
  }
  if (!requests.run(options.limit)) totals.late = true;
  for (const Member& member : members) totals.done += member.done() ? 1 : 0;
  totals.finished += requests.finished();
  totals.lost += requests.lost();
  if (faulty) totals.faulty = true;
  if (!requests.first_trouble().empty())
    std::fprintf(stderr, "%s\n", requests.first_trouble().c_str());
}

}  // namespace

bool run_crowd(const CrowdOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  auto* const arrived = shared<std::atomic<std::uint32_t>>(1 + options.slots + options.hosts);
  Totals& totals = *shared<Totals>(1);
  std::vector<pid_t> children;
  for (std::uint32_t part = 1; part < kProcesses; ++part) {
    const pid_t child = ::fork();
    if (child < 0) throw std::runtime_error("fork");
    if (child == 0) {
      run_part(options, part, arrived, totals);
      ::_exit(0);
    }
    children.push_back(child);
  }
  run_part(options, 0, arrived, totals);
  for (const pid_t child : children) {
    int status = 0;
    if (::waitpid(child, &status, 0) != child || status != 0) totals.faulty = true;
  }
  const std::size_t members = std::size_t{options.hosts} * options.slots;
  const auto time = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - begin);
  std::printf("crowd of %zu: %zu done, %zu requests, %zu lost, %ld ms%s\n", members,
              totals.done.load(), totals.finished.load(), totals.lost.load(),
              static_cast<long>(time.count()), totals.faulty ? ", wrong answers" : "");
  return !totals.late && !totals.faulty && totals.lost == 0 && totals.done == members;
}

}  // namespace hvdrun::test
