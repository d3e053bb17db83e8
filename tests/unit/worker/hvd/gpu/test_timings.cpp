// When the fake GPU began and ended operations, on the host's clock.
#include <atomic>
#include <chrono>
#include <cmath>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/worker/hvd/gpu/fake_ranks.h"
#include "worker/hvd/gpu/watch.h"

using namespace hvdrun;
using namespace hvdrun::test;

namespace {

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The times that operations were told, in their order.
struct Told {
  struct Entry {
    std::string what;
    double time;  // seconds
  };
  std::vector<Entry> entries;

  std::string text() const {
    std::string all;
    for (const Entry& entry : entries) all += entry.what + " ";
    return all;
  }
};

class ToldSpan final : public GpuSpan {
 public:
  ToldSpan(Told& told, std::string name) : told_(told), name_(std::move(name)) {}
  void began(std::uint64_t time) noexcept override { add("begins", time); }
  void ended(std::uint64_t time) noexcept override { add("ends", time); }

 private:
  void add(const char* what, std::uint64_t time) {
    told_.entries.push_back({name_ + " " + what, static_cast<double>(time) / 1e9});
  }
  Told& told_;
  const std::string name_;
};

GpuTicket sum_with(NcclCommunicator& communicator, float& value, cuda::Stream stream,
                   std::shared_ptr<GpuSpan> span) {
  GpuCall call{stream, 20s};
  call.span = std::move(span);
  return communicator.allreduce(&value, &value, 1, {hvd::DataType::float32, hvd::ReduceOp::sum},
                                call);
}

}  // namespace

TEST_CASE("an operation is told when the GPU has begun and ended it, and no host waits",
          "[gpu][timings]") {
  FakeRanks ranks(2);
  REQUIRE(ranks.connect() == nothing_wrong(2));
  Told told;
  const int made = fake().timing_events;
  std::atomic<bool> looked{false};
  const double before = seconds_now();
  const auto errors = ranks.run([&](int rank) {
    NcclCommunicator& own = ranks.at(rank);
    GpuStream user(*ranks.devices[static_cast<std::size_t>(rank)]);
    float value = 1;
    if (rank == 1) {
      // Its part comes when rank 0 has looked.
      while (!looked) std::this_thread::yield();
      own.wait(sum_one(own, value, user.get()), 20s);
      own.wait(sum_one(own, value, user.get()), 20s);
      return;
    }
    hold(user.get());
    sum_with(own, value, user.get(), std::make_shared<ToldSpan>(told, "first"));
    own.tell_times();
    if (told.text() != "") throw std::runtime_error("it has not begun: " + told.text());
    fake().held = false;
    while (told.entries.empty()) own.tell_times();
    if (told.text() != "first begins ") throw std::runtime_error(told.text());
    looked = true;
    const GpuTicket last =
        sum_with(own, value, user.get(), std::make_shared<ToldSpan>(told, "second"));
    own.wait(last, 20s);
    own.tell_times();
  });
  CHECK(errors == nothing_wrong(2));
  REQUIRE(told.text() == "first begins first ends second begins second ends ");
  CHECK(fake().timing_events - made <= 4 + 2 * 6);  // and those by which clocks are compared
  // The fake's streams are threads that run when they may.
  double last = before - 0.5;
  for (const Told::Entry& entry : told.entries) {
    CHECK(entry.time >= last);
    last = entry.time;
  }
  CHECK(last <= seconds_now() + 0.5);
  CHECK(fake().misuses == 0);
}

TEST_CASE("the GPU's clock is compared with the host's", "[gpu][timings]") {
  FakeRanks ranks(1);
  REQUIRE(ranks.connect() == nothing_wrong(1));
  Told told;
  float value = 1;
  double began = 0;
  const auto errors = ranks.run([&](int) {
    began = seconds_now();
    const GpuTicket ticket =
        sum_with(ranks.at(0), value, nullptr, std::make_shared<ToldSpan>(told, "sum"));
    // Without a look, which would compare the clocks.
    while (!ranks.at(0).has_ended(ticket)) std::this_thread::yield();
    // As if this came a minute later: so the operation was a minute earlier.
    fake().clock_ahead = 60'000'000'000;
    // On a busy machine the fake may answer late, and is asked again after a second.
    while (told.entries.size() < 2 && seconds_now() < began + 20) ranks.at(0).tell_times();
  });
  CHECK(errors == nothing_wrong(1));
  REQUIRE(told.text() == "sum begins sum ends ");
  for (const Told::Entry& entry : told.entries) CHECK(std::abs(entry.time - (began - 60)) < 5);
}

TEST_CASE("a GPU that does not answer is asked now and then, by one event", "[gpu][timings]") {
  FakeRanks ranks(1);
  const GpuDevice& device = *ranks.devices[0];
  const CurrentDevice current(device);
  fake().held = true;
  fake().new_streams_held = true;
  const auto records = [] {
    const std::lock_guard lock(fake().mutex);
    return fake().calls.size();
  };
  GpuClock clock(device);
  {
    const std::lock_guard lock(fake().mutex);
    fake().calls.clear();
    fake().logging = true;
  }
  for (int i = 0; i < 100; ++i) CHECK_FALSE(clock.compare());
  CHECK(records() == 1);
  fake().held = false;
  const double begin = seconds_now();
  while (!clock.compare() && seconds_now() < begin + 20) std::this_thread::yield();
  CHECK(clock.compare());
  CHECK(records() > 1);
  fake().new_streams_held = false;
}

TEST_CASE("a GPU's clock that answers late keeps the watch awake", "[gpu][timings]") {
  class Counted final : public GpuSpan {
   public:
    explicit Counted(std::atomic<int>& count) : count_(count) {}
    void began(std::uint64_t) noexcept override { ++count_; }
    void ended(std::uint64_t) noexcept override { ++count_; }

   private:
    std::atomic<int>& count_;
  };
  FakeRanks ranks(1);
  REQUIRE(ranks.connect() == nothing_wrong(1));
  // The stream of the clock, which is made last, is held; the operations' is not.
  fake().held = true;
  fake().new_streams_held = true;
  std::atomic<int> told{0};
  GpuWatch watch({}, 1ms, 20ms);
  watch.add(ranks.at(0));
  float value = 1;
  CHECK(ranks.run([&](int) {
    const GpuTicket ticket = sum_with(ranks.at(0), value, nullptr, std::make_shared<Counted>(told));
    while (!ranks.at(0).has_ended(ticket)) std::this_thread::yield();
  }) == nothing_wrong(1));
  // Nothing else is under way, for longer than it would need to fall asleep.
  std::this_thread::sleep_for(200ms);
  CHECK(told == 0);
  fake().held = false;
  const double begin = seconds_now();
  while (told < 2 && seconds_now() < begin + 20) std::this_thread::yield();
  CHECK(told == 2);
  watch.remove(ranks.at(0));
  fake().new_streams_held = false;
}

TEST_CASE("what was under way as its communicator ended has no end, and nobody asks without need",
          "[gpu][timings]") {
  FakeRanks ranks(2);
  REQUIRE(ranks.connect() == nothing_wrong(2));
  Told told;
  float value = 1;
  const int made = fake().timing_events;
  const auto errors = ranks.run([&](int rank) {
    if (rank == 1) return;
    NcclCommunicator& own = ranks.at(0);
    // The other rank does not come.
    sum_with(own, value, nullptr, std::make_shared<ToldSpan>(told, "sum"));
    while (told.entries.empty()) own.tell_times();
    own.abort({hvd::ErrorCode::peer_lost, "rank 1 is lost"});
    own.tell_times();
  });
  CHECK(errors == nothing_wrong(2));
  CHECK(told.text() == "sum begins ");
  const int with = fake().timing_events;
  CHECK(with > made);
  FakeRanks others(1);
  REQUIRE(others.connect() == nothing_wrong(1));
  CHECK(others.run([&](int) {
    others.at(0).wait(sum_one(others.at(0), value), 20s);
    others.at(0).tell_times();
  }) == nothing_wrong(1));
  CHECK(fake().timing_events == with);
}
