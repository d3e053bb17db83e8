#include <chrono>
#include <cstdlib>
#include <numeric>
#include <string>
#include <thread>

#include <hvd/hvd.h>

#include "tests/catch.h"
#include "tests/unit/worker/hvd/api/mini_job.h"

using namespace hvdrun::test;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

void expect(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error(what);
}

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const hvd::Error& error) {
    return std::to_string(static_cast<int>(error.code())) + " " + error.what();
  }
  return "no error";
}

std::string code(hvd::ErrorCode value) { return std::to_string(static_cast<int>(value)) + " "; }

void allreduce_ones(std::size_t count) {
  std::vector<float> data(count, 1.0F);
  hvd::allreduce(data.data(), data.data(), count, hvd::ReduceOp::sum);
  for (const float x : data) expect(x == static_cast<float>(hvd::size()), "wrong sum");
}

void check_all_ok(const std::vector<ProcessResult>& results) {
  for (const ProcessResult& result : results) {
    INFO(result.text);
    CHECK(result.status == 0);
  }
}

}  // namespace

TEST_CASE("four processes run every collective", "[api]") {
  check_all_ok(MiniJob(4).run([](int rank) {
    expect(!hvd::is_initialized(), "initialized too early");
    hvd::init();
    hvd::init();
    expect(hvd::is_initialized() && hvd::rank() == rank && hvd::size() == 4, "wrong place");
    expect(hvd::local_rank() == rank && hvd::local_size() == 4, "wrong local place");
    expect(hvd::cross_rank() == 0 && hvd::cross_size() == 1, "wrong cross place");
    allreduce_ones(1);
    allreduce_ones(1'000'000);
    std::int64_t number = rank == 2 ? 77 : 0;
    hvd::broadcast(&number, 1, 2);
    expect(number == 77, "wrong broadcast");
    std::vector<std::int32_t> all(4);
    const std::int32_t own = rank * 10;
    hvd::allgather(&own, all.data(), 1);
    expect(all == std::vector<std::int32_t>{0, 10, 20, 30}, "wrong allgather");
    double value = rank;
    const hvd::Handle handle = hvd::allreduce_async(&value, &value, 1);
    hvd::barrier();
    expect(hvd::poll(handle), "not done after a later barrier");
    hvd::synchronize(handle);
    expect(value == 1.5, "wrong mean");
    expect(contains(error_of([&] { hvd::synchronize(handle); }), "no operation has handle"),
           "handle consumed twice");
    hvd::shutdown();
    hvd::shutdown();
    return std::string();
  }));
}

TEST_CASE("outside the job an error says why this process has none", "[api]") {
  check_all_ok(MiniJob(2).run([](int) {
    const auto why = [](const char* text) {
      const std::string error = error_of([] { hvd::rank(); });
      expect(error == code(hvd::ErrorCode::not_initialized) + text, error);
      expect(error_of([] { hvd::barrier(); }) == error, "an operation says something else");
    };
    why("hvd::init() has not been called in this process");
    hvd::shutdown();
    why("hvd::init() has not been called in this process");
    ::setenv("HVD_INIT_TIMEOUT", "soon", 1);  // NOLINT(concurrency-mt-unsafe): no thread yet
    expect(contains(error_of([] { hvd::init(); }), "HVD_INIT_TIMEOUT"), "a wrong time is taken");
    ::unsetenv("HVD_INIT_TIMEOUT");  // NOLINT(concurrency-mt-unsafe): no thread yet
    why("hvd::init() has failed in this process, or is not done yet");
    for (int life = 0; life < 2; ++life) {
      hvd::init();
      hvd::shutdown();
      why("hvd::shutdown() has been called; another hvd::init() joins the job again");
    }
    return std::string();
  }));
}

TEST_CASE("objects of any length reach everybody", "[api]") {
  check_all_ok(MiniJob(3).run([](int rank) {
    hvd::init();
    const std::string mine(static_cast<std::size_t>(rank) * 100'000, static_cast<char>('a' + rank));
    expect(hvd::broadcast_object(mine, 2) == std::string(200'000, 'c'), "wrong object");
    expect(hvd::broadcast_object(mine).empty(), "rank 0's is empty");
    const std::vector<std::string> all = hvd::allgather_object(mine);
    expect(all.size() == 3 && all[0].empty() && all[1] == std::string(100'000, 'b') &&
               all[2] == std::string(200'000, 'c'),
           "wrong objects");
    const std::string wrong = error_of([&] { hvd::broadcast_object(mine, 3); });
    expect(contains(wrong, code(hvd::ErrorCode::invalid_argument)), "root 3 of 3");
    hvd::shutdown();
    return std::string();
  }));
  hvd::init();
  CHECK(hvd::broadcast_object("alone") == "alone");
  CHECK(hvd::allgather_object("alone") == std::vector<std::string>{"alone"});
  hvd::shutdown();
}

TEST_CASE("a handle of an earlier life names nothing in the next", "[api]") {
  float value = 1;
  const auto submit = [&] {
    hvd::init();
    return hvd::allreduce_async(&value, &value, 1, hvd::ReduceOp::sum);
  };
  const hvd::Handle old = submit();
  hvd::shutdown();
  const hvd::Handle current = submit();
  CHECK(contains(error_of([&] { hvd::synchronize(old); }), "no operation has handle"));
  hvd::synchronize(current);
  hvd::shutdown();
}

TEST_CASE("a killed rank is named by all others within a second", "[api]") {
  const auto results = MiniJob(4).run([](int rank) {
    hvd::init();
    allreduce_ones(10);
    if (rank == 2) ::raise(SIGKILL);
    const auto start = steady_clock::now();
    std::string text = error_of([] { allreduce_ones(100'000); });
    expect(steady_clock::now() - start < milliseconds(1000), "too late");
    // Still named later.
    expect(contains(error_of([] { hvd::barrier(); }), "rank 2 is lost"), "not named again");
    return text;
  });
  CHECK(WIFSIGNALED(results[2].status));
  for (const std::size_t rank : {0, 1, 3}) {
    INFO(results[rank].text);
    CHECK(results[rank].status == 0);
    CHECK(contains(results[rank].text, code(hvd::ErrorCode::peer_lost) +
                                           "allreduce(float32, 100000 elements, sum): rank 2 is "
                                           "lost: its process ended"));
  }
}

TEST_CASE("who did its part may leave: the slow rank's last collective succeeds", "[api]") {
  // Many lives in the same processes: init() again after shutdown(), with the goodbyes of the last
  // life still under way.
  check_all_ok(MiniJob(3).run([](int rank) {
    for (int life = 0; life < 30; ++life) {
      hvd::init();
      if (life % 3 == rank) std::this_thread::sleep_for(milliseconds(5));
      allreduce_ones(life % 2 == 0 ? 3 : 200'000);
      if (life % 2 == 0) hvd::barrier();
      hvd::shutdown();
    }
    return std::string();
  }));
}

TEST_CASE("an init that fails once all have met leaves nothing to the next one", "[api]") {
  MiniJob job(3);
  job.environment["HVD_COLLECTIVE_TIMEOUT"] = "5";
  check_all_ok(job.run([](int rank) {
    hvd::InitOptions wrong;
    wrong.process_sets = {{"wrong", {0, rank == 1 ? 2 : 1}}};
    for (int life = 0; life < 3; ++life) {
      expect(contains(error_of([&] { hvd::init(wrong); }), "hvd::init(): "), "no error");
      expect(!hvd::is_initialized(), "initialized all the same");
      hvd::init();
      allreduce_ones(3);
      allreduce_ones(200'000);
      hvd::barrier();
      hvd::shutdown();
    }
    return std::string();
  }));
  CHECK(job.blobs.size() == 6);
}

TEST_CASE("who exits right after the last collective harms nobody", "[api]") {
  for (int round = 0; round < 10; ++round) {
    check_all_ok(MiniJob(3).run([](int rank) {
      hvd::init();
      if (rank == 1) std::this_thread::sleep_for(milliseconds(3));
      hvd::barrier();
      return std::string();  // no shutdown
    }));
  }
}

TEST_CASE("a collective after another rank's shutdown names that rank", "[api]") {
  const auto results = MiniJob(3).run([](int rank) {
    hvd::init();
    hvd::barrier();
    if (rank == 1) {
      hvd::shutdown();
      return std::string("left");
    }
    return error_of([] { allreduce_ones(8); });
  });
  for (const std::size_t rank : {0, 2}) {
    CHECK(contains(results[rank].text,
                   "allreduce(float32, 8 elements, sum): rank 1 called hvd::shutdown()"));
  }
}

TEST_CASE("a mismatch between processes is the same error everywhere", "[api]") {
  const auto results = MiniJob(3).run([](int rank) {
    hvd::init();
    std::int64_t data[8] = {};
    return error_of([&] {
      if (rank == 1) {
        hvd::broadcast(data, 3, 1);
      } else {
        hvd::allreduce(data, data, 8);
      }
    });
  });
  for (const ProcessResult& result : results) {
    CHECK(result.text == code(hvd::ErrorCode::mismatch) +
                             "rank 0 called allreduce(int64, 8 elements, average), but rank 1 "
                             "called broadcast(int64, 3 elements, root 1)");
  }
}

TEST_CASE("time limits come from the environment", "[api]") {
  MiniJob job(2);
  job.environment["HVD_COLLECTIVE_TIMEOUT"] = "0.2";
  const auto results = job.run([](int rank) {
    hvd::init();
    if (rank == 1) {
      std::this_thread::sleep_for(milliseconds(2000));
      return std::string();
    }
    return error_of([] { hvd::barrier(); });
  });
  CHECK(results[0].text == code(hvd::ErrorCode::timeout) + "barrier(): waited 0.2 s for rank 1");

  MiniJob alone(2);
  alone.ranks_to_start = 1;
  alone.environment["HVD_INIT_TIMEOUT"] = "0.2";
  const auto late = alone.run([](int) { return error_of([] { hvd::init(); }); });
  CHECK(late[0].text ==
        code(hvd::ErrorCode::timeout) + "hvd::init(): not all of the 2 ranks arrived in time");

  MiniJob wrong(1);
  wrong.environment["HVD_INIT_TIMEOUT"] = "soon";
  CHECK(contains(wrong.run([](int) { return error_of([] { hvd::init(); }); })[0].text,
                 "HVD_INIT_TIMEOUT='soon' is not a time"));
}

TEST_CASE("the loss of the agent ends a pending collective", "[api]") {
  MiniJob job(2);
  job.agent_dies_after_ms = 100;
  const auto results = job.run([](int rank) {
    hvd::init();
    if (rank == 1) {
      std::this_thread::sleep_for(milliseconds(800));
      return std::string();
    }
    return error_of([] { hvd::barrier(); });
  });
  CHECK(contains(results[0].text, "barrier(): the line to this host's agent is lost"));
}

TEST_CASE("a job on several hosts needs an address of this one", "[api]") {
  MiniJob job(2);
  job.hosts = 2;
  const auto results = job.run([](int) { return error_of([] { hvd::init(); }); });
  CHECK(contains(results[1].text, code(hvd::ErrorCode::unavailable)));
  CHECK(
      contains(results[1].text, "hvd::init(): the launcher does not know an address of this host"));
}

TEST_CASE("a forked child has no part in its parent's job", "[api]") {
  check_all_ok(MiniJob(2).run([](int) {
    hvd::init();
    const pid_t pid = ::fork();
    if (pid == 0) {
      bool ok = !hvd::is_initialized();
      ok = ok && contains(error_of([] { hvd::barrier(); }),
                          "this process is a child by fork() of one that had called hvd::init()");
      hvd::shutdown();
#if defined(__SANITIZE_ADDRESS__)
      std::_Exit(ok ? 0 : 1);  // what the parent's threads had on their stacks is leaked here
#endif
      // Through the exit handlers, as a careless program would.
      std::exit(ok ? 0 : 1);  // NOLINT(concurrency-mt-unsafe)
    }
    int status = -1;
    ::waitpid(pid, &status, 0);
    expect(status == 0, "the child failed");
    allreduce_ones(100);
    hvd::shutdown();
    return std::string();
  }));
}

TEST_CASE("without a launcher the job is this process", "[api]") {
  MiniJob job(1);
  check_all_ok(job.run([](int) {
    for (const char* name : {"HVD_AGENT", "HVD_RANK"}) ::unsetenv(name);  // NOLINT
    hvd::init();
    expect(hvd::rank() == 0 && hvd::size() == 1 && hvd::local_size() == 1, "wrong place");
    allreduce_ones(1000);
    const hvd::Handle handle = hvd::broadcast_async(static_cast<float*>(nullptr), 0);
    hvd::synchronize(handle);
    hvd::shutdown();
    return std::string();
  }));
  check_all_ok(MiniJob(1).run([](int) {
    hvd::init();
    allreduce_ones(1000);
    hvd::shutdown();
    return std::string();
  }));
}
