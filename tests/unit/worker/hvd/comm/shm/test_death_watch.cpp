// Processes that die while others of their host watch them.
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <memory>
#include <poll.h>
#include <string>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "common/base/unique_fd.h"
#include "tests/catch.h"
#include "worker/hvd/comm/shm/death_watch.h"

namespace hvdrun {
namespace {

constexpr int kPatience = 20'000;  // ms

// Ranks that are processes. Each writes "who died" as a byte pair (its rank, the dead one), and
// does what it is told by a byte.
class Ring {
 public:
  explicit Ring(std::size_t size)
      : size_(size),
        mapping_(std::make_shared<const Mapping>(Mapping::anonymous(4096))),
        ranks_(size) {
    REQUIRE(DeathWatch::area_bytes(size) <= 4096);
    open(said_);
    for (Rank& rank : ranks_) open(rank.told);
    for (std::size_t rank = 0; rank < size; ++rank) {
      ranks_[rank].pid = ::fork();
      REQUIRE(ranks_[rank].pid >= 0);
      if (ranks_[rank].pid == 0) live(rank);
    }
    // All hold their words, and are told to watch.
    for (std::size_t count = 0; count < size; ++count) REQUIRE(next_word()[1] == 'h');
    for (std::size_t rank = 0; rank < size; ++rank) tell(rank, 'w');
    for (std::size_t count = 0; count < size; ++count) REQUIRE(next_word()[1] == 'w');
  }
  ~Ring() {
    for (const Rank& rank : ranks_) {
      if (rank.pid <= 0) continue;
      ::kill(rank.pid, SIGKILL);
      ::waitpid(rank.pid, nullptr, 0);
    }
  }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  void kill(std::size_t rank) { REQUIRE(::kill(ranks_[rank].pid, SIGKILL) == 0); }
  // 'g': gives its word back. 'x': runs another program. 'f': ends, and leaves a child behind.
  void tell(std::size_t rank, char what) {
    REQUIRE(::write(ranks_[rank].told[1].get(), &what, 1) == 1);
  }
  // "0 1": rank 0 says that rank 1 has died. Empty: nobody has said anything in time.
  std::string next_death(int patience = kPatience) {
    const auto word = next_word(patience);
    if (word[1] == 0) return "";
    return std::to_string(word[0]) + " " + std::to_string(word[1] - kDead);
  }

 private:
  static constexpr char kDead = 'A';
  using Pipe = std::array<UniqueFd, 2>;
  struct Rank {
    Pipe told;
    pid_t pid = 0;
  };

  static void open(Pipe& ends) {
    int fds[2];
    REQUIRE(::pipe2(fds, O_CLOEXEC) == 0);
    ends[0].reset(fds[0]);
    ends[1].reset(fds[1]);
  }
  void say(std::size_t rank, char what) const {
    const char word[2] = {static_cast<char>(rank), what};
    if (::write(said_[1].get(), word, 2) != 2) ::_exit(3);
  }
  std::array<char, 2> next_word(int patience = kPatience) const {
    std::array<char, 2> word{};
    pollfd wait{said_[0].get(), POLLIN, 0};
    if (::poll(&wait, 1, patience) != 1) return word;
    REQUIRE(::read(said_[0].get(), word.data(), 2) == 2);
    return word;
  }
  [[noreturn]] void live(std::size_t rank) {
    auto watch = std::make_unique<DeathWatch>(mapping_, mapping_->data(), rank, size_);
    say(rank, 'h');
    while (true) {
      char what = 0;
      if (::read(ranks_[rank].told[0].get(), &what, 1) != 1) ::_exit(2);
      switch (what) {
        case 'w':
          watch->watch([this, rank](std::size_t dead) {
            say(rank, static_cast<char>(kDead + static_cast<char>(dead)));
          });
          say(rank, 'w');
          break;
        case 'g':
          watch.reset();
          say(rank, 'g');
          break;
        case 'x':
          ::execl("/bin/sleep", "sleep", "60", nullptr);
          ::_exit(4);
        case 'f':
          if (::fork() == 0) {
            // It holds every descriptor of its parent for a while.
            ::alarm(10);
            while (true) ::pause();
          }
          ::_exit(0);
        default:
          ::_exit(5);
      }
    }
  }

  std::size_t size_;
  std::shared_ptr<const Mapping> mapping_;
  Pipe said_;
  std::vector<Rank> ranks_;
};

bool has_robust_futexes() {
  const auto mapping = std::make_shared<const Mapping>(Mapping::anonymous(4096));
  const DeathWatch watch(mapping, mapping->data(), 0, 1);
  const bool held = reinterpret_cast<const LifeWord*>(mapping->data())->holder.load() != 0;
  if (!held) WARN("left out: this kernel has no robust futexes");
  return held;
}

TEST_CASE("a rank's death is told by the one before it", "[death watch]") {
  if (!has_robust_futexes()) return;
  const std::size_t dead = GENERATE(0U, 1U, 3U);
  Ring ring(4);
  ring.kill(dead);
  CHECK(ring.next_death() == std::to_string((dead + 3) % 4) + " " + std::to_string(dead));
  CHECK(ring.next_death(100).empty());
}

TEST_CASE("deaths are told whatever their order, by those who live", "[death watch]") {
  if (!has_robust_futexes()) return;
  SECTION("neighbours, forwards") {
    Ring ring(4);
    ring.kill(1);
    ring.kill(2);
    CHECK(ring.next_death() == "0 1");
    // Rank 1 may have told it before it was told to end itself.
    std::string next = ring.next_death();
    if (next == "1 2") next = ring.next_death();
    CHECK(next == "0 2");
  }
  SECTION("neighbours, backwards") {
    Ring ring(4);
    ring.kill(2);
    CHECK(ring.next_death() == "1 2");
    ring.kill(1);
    CHECK(ring.next_death() == "0 1");
    CHECK(ring.next_death() == "0 2");  // whoever comes to it finds it dead
    ring.kill(3);
    CHECK(ring.next_death() == "0 3");
    CHECK(ring.next_death(100).empty());
  }
  SECTION("of two") {
    Ring ring(2);
    ring.kill(0);
    CHECK(ring.next_death() == "1 0");
  }
}

TEST_CASE("who gives its word back has not died, and is watched over", "[death watch]") {
  if (!has_robust_futexes()) return;
  Ring ring(4);
  ring.tell(1, 'g');
  CHECK(ring.next_death() == "1 " + std::to_string('g' - 'A'));
  ring.kill(1);
  CHECK(ring.next_death(100).empty());
  ring.kill(2);
  CHECK(ring.next_death() == "0 2");
}

TEST_CASE("a program that runs another one is dead for its ranks", "[death watch]") {
  if (!has_robust_futexes()) return;
  Ring ring(3);
  ring.tell(1, 'x');
  CHECK(ring.next_death() == "0 1");
}

TEST_CASE("a child that lives on hides no death", "[death watch]") {
  if (!has_robust_futexes()) return;
  Ring ring(3);
  ring.tell(2, 'f');
  CHECK(ring.next_death() == "1 2");
}

// One that waits for its neighbour is woken. Were it not, each would take a second.
TEST_CASE("a watch ends at once", "[death watch]") {
  const auto mapping = std::make_shared<const Mapping>(Mapping::anonymous(4096));
  const auto begin = std::chrono::steady_clock::now();
  for (int round = 0; round < 50; ++round) {
    std::vector<std::unique_ptr<DeathWatch>> all;
    for (std::size_t rank = 0; rank < 3; ++rank)
      all.push_back(std::make_unique<DeathWatch>(mapping, mapping->data(), rank, 3));
    std::atomic<int> deaths{0};
    for (const auto& one : all) one->watch([&deaths](std::size_t) { ++deaths; });
    if (round % 2 == 0) std::this_thread::yield();
    if (round % 3 == 0) std::swap(all[0], all[2]);
    all.clear();
    CHECK(deaths == 0);
  }
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(40));
}

TEST_CASE("a watch that was never begun ends, too", "[death watch]") {
  const auto mapping = std::make_shared<const Mapping>(Mapping::anonymous(4096));
  const DeathWatch one(mapping, mapping->data(), 0, 2);
  const DeathWatch other(mapping, mapping->data(), 1, 2);
}

}  // namespace
}  // namespace hvdrun
