// Jobs whose ranks have GPUs: those of the fake driver, which is the one that the loader finds. Its
// NCCL joins ranks of one process only, so what needs several is run with ranks that are threads.
#include <algorithm>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <hvd/hvd.h>

#include "tests/catch.h"
#include "tests/unit/worker/hvd/api/mini_job.h"
#include "tests/unit/worker/hvd/gpu/fake_ranks.h"
#include "worker/hvd/api/worker_job.h"
#include "worker/hvd/engine/device_use.h"
#include "worker/hvd/gpu/stream.h"

using namespace hvdrun;
using namespace hvdrun::test;

namespace {

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

void check_all_ok(const std::vector<ProcessResult>& results) {
  for (const ProcessResult& result : results) {
    INFO(result.text);
    CHECK(result.status == 0);
  }
}

bool driver_is_loaded() { return ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) != nullptr; }

void sum_on_cpu() {
  float value = 1;
  hvd::allreduce(&value, &value, 1, hvd::ReduceOp::sum);
  expect(value == static_cast<float>(hvd::size()), "wrong sum on the CPU");
}

// The sum of the ranks' numbers, from 1.
void sum_on_gpu(Engine& engine, int rank, float expected) {
  auto value = static_cast<float>(rank + 1);
  Operation operation;
  operation.kind = OpKind::allreduce;
  operation.input = operation.output = &value;
  operation.count = 1;
  operation.reduction = {hvd::DataType::float32, hvd::ReduceOp::sum, 1, 1};
  operation.device = std::make_shared<DeviceUse>();
  const std::uint64_t id = engine.submit(operation);
  expect(engine.wait(id, 20s), "it has not ended");
  engine.synchronize(id);
  expect(value == expected, "wrong sum " + std::to_string(value));
}

// The fake's ids are texts, filled up with zeros.
std::string text_of(const std::string& blob) { return blob.c_str(); }

// The last who holds the device may be a thread that is just about to end.
int contexts_left() {
  for (int i = 0; i < 2000 && fake().contexts != 0; ++i) std::this_thread::sleep_for(1ms);
  return fake().contexts;
}

hvd::OperationOptions on_gpu() {
  hvd::OperationOptions options;
  options.device = hvd::Device::gpu;
  return options;
}

}  // namespace

TEST_CASE("init takes the GPU of the local rank before anything else", "[api][gpu]") {
  check_all_ok(MiniJob(3).run([](int rank) {
    {
      const std::lock_guard lock(fake().mutex);
      fake().logging = true;
    }
    hvd::init();
    expect(hvd::gpu() == rank, "GPU " + std::to_string(hvd::gpu()));
    {
      const std::lock_guard lock(fake().mutex);
      const std::string number = std::to_string(rank);
      std::vector<std::string> wanted{"retain " + number, "current " + number};
      if (rank == 0) wanted.emplace_back("makes id 1");
      expect(fake().calls == wanted, "other calls: " + fake().calls.back());
    }
    sum_on_cpu();
    hvd::shutdown();
    expect(fake().contexts == 0, "the context is left");
    return std::string();
  }));
}

TEST_CASE("without visible GPUs ranks run on the CPU and load no driver", "[api][gpu]") {
  MiniJob job(2);
  job.environment["CUDA_VISIBLE_DEVICES"] = "";
  check_all_ok(job.run([](int) {
    hvd::init();
    expect(hvd::gpu() == -1, "a GPU");
    expect(!driver_is_loaded(), "the driver is loaded");
    sum_on_cpu();
    float value = 1;
    const std::string error =
        error_of([&] { hvd::allreduce(&value, &value, 1, hvd::ReduceOp::sum, {}, on_gpu()); });
    expect(error == code(hvd::ErrorCode::unavailable) +
                        "allreduce(float32, 1 element, sum, on a GPU): this rank has no GPU: "
                        "CUDA_VISIBLE_DEVICES names no GPU",
           error);
    hvd::shutdown();
    return std::string();
  }));
}

TEST_CASE("some ranks on a GPU and some on the CPU is an error on every rank", "[api][gpu]") {
  MiniJob job(3);
  job.environment_of = [](int rank) {
    return rank == 1 ? std::map<std::string, std::string>{{"CUDA_VISIBLE_DEVICES", ""}}
                     : std::map<std::string, std::string>{};
  };
  for (const ProcessResult& result : job.run([](int) {
         hvd::init();
         return std::string("no error");
       }))
    CHECK(result.text ==
          "hvd::init(): ranks 0, 2 have GPUs, but rank 1 not (rank 1: CUDA_VISIBLE_DEVICES "
          "names no GPU); give every rank one, or run all on the CPU with --gpus none");
}

TEST_CASE("more local ranks than GPUs is one line on each of them", "[api][gpu]") {
  for (const ProcessResult& result : MiniJob(3).run([](int) {
         fake().devices = 2;
         hvd::init();
         return std::string("no error");
       }))
    CHECK(result.text ==
          "hvd::init(): this host has 3 ranks and 2 GPUs: start at most 2 ranks here, as in -H "
          "HOST:2, or run on the CPU with --gpus none");
}

TEST_CASE("ranks share GPUs where a test says so", "[api][gpu]") {
  MiniJob job(3);
  job.environment["HVD_SHARE_GPU"] = "1";
  check_all_ok(job.run([](int rank) {
    fake().devices = 2;
    hvd::init();
    expect(hvd::gpu() == rank % 2, "GPU " + std::to_string(hvd::gpu()));
    sum_on_cpu();
    hvd::shutdown();
    return std::string();
  }));
}

TEST_CASE("a rank that should have had a GPU is told to those that need none", "[api][gpu]") {
  MiniJob job(3);
  job.environment_of = [](int rank) {
    return rank == 0 ? std::map<std::string, std::string>{{"CUDA_VISIBLE_DEVICES", ""}}
                     : std::map<std::string, std::string>{};
  };
  const std::string reason = "this host has 3 ranks and 2 GPUs";
  const auto results = job.run([](int) {
    fake().devices = 2;
    hvd::init();
    return std::string("no error");
  });
  CHECK(results[0].text.find("hvd::init(): rank 1 cannot take a GPU: " + reason) == 0);
  CHECK(results[1].text.find("hvd::init(): " + reason) == 0);
  CHECK(results[2].text.find("hvd::init(): " + reason) == 0);
}

TEST_CASE("without NCCL only operations on GPU memory fail", "[api][gpu]") {
  MiniJob job(2);
  job.environment["HVD_NCCL_LIBRARY"] = "/nowhere/libnccl.so.2";
  check_all_ok(job.run([](int) {
    hvd::init();
    sum_on_cpu();
    float value = 1;
    const std::string error =
        error_of([&] { hvd::allreduce(&value, &value, 1, hvd::ReduceOp::sum, {}, on_gpu()); });
    expect(error.find(code(hvd::ErrorCode::unavailable) +
                      "rank 0: NCCL cannot be loaded as HVD_NCCL_LIBRARY says: ") == 0,
           error);
    expect(hvd::nccl_version() == 0, "a version without a library");
    sum_on_cpu();
    hvd::shutdown();
    return std::string();
  }));
}

TEST_CASE("a rank that dies while NCCL waits for it is named at once", "[api][gpu]") {
  const auto results = MiniJob(2).run([](int rank) {
    hvd::init();
    sum_on_cpu();
    // Processes do not find each other in the fake NCCL: both wait there.
    if (rank == 1)
      std::thread([] {
        std::this_thread::sleep_for(300ms);
        ::raise(SIGKILL);
      }).detach();
    float value = 1;
    const auto start = std::chrono::steady_clock::now();
    const std::string error =
        error_of([&] { hvd::allreduce(&value, &value, 1, hvd::ReduceOp::sum, {}, on_gpu()); });
    expect(std::chrono::steady_clock::now() - start < 5s, "too late");
    return error;
  });
  CHECK(results[0].text.find("rank 1 is lost") != std::string::npos);
}

TEST_CASE("a job of one rank, or a process set of one, loads no NCCL", "[api][gpu]") {
  // Before this process has streams of its own, whose threads a child does not have.
  const bool set = GENERATE(false, true);
  MiniJob job(set ? 2 : 1);
  // A rank that asked for it would get an error.
  job.environment["HVD_NCCL_LIBRARY"] = "/nowhere/libnccl.so.2";
  check_all_ok(job.run([set](int rank) {
    hvd::init();
    hvd::OperationOptions options = on_gpu();
    if (set) {
      hvd::add_process_set({0}, "first");
      const hvd::ProcessSet second = hvd::add_process_set({1}, "second");
      options.process_set = rank == 0 ? hvd::process_set("first") : second;
    }
    const std::vector<float> in(4, 3);
    std::vector<float> out(4);
    hvd::Handle handle =
        hvd::allreduce_async(in.data(), out.data(), 4, hvd::ReduceOp::average, {}, options);
    expect(hvd::wait(handle, 20s), "it has not ended");
    hvd::synchronize(handle);
    expect(out == in, "wrong average");
    expect(fake().nccl_calls == 0, "NCCL is called");
    hvd::shutdown();
    expect(fake().contexts == 0, "the context is left");
    return std::string();
  }));
}

TEST_CASE("one rank alone runs every call on GPU memory", "[api][gpu]") {
  reset_fake();
  hvd::init();
  REQUIRE(hvd::gpu() == 0);
  float value = 3;
  std::vector<float> in(4, 2.0F);
  std::vector<float> out(4);
  const std::size_t counts[] = {4};
  const auto gpu = on_gpu();
  const auto check = [&](const hvd::Handle& handle) {
    CHECK(hvd::wait(handle, 20s));
    CHECK(hvd::poll(handle));
    hvd::synchronize(handle);
    CHECK(out == in);
    out.assign(4, 0);
  };
  const auto type = hvd::DataType::float32;
  hvd::allreduce(in.data(), out.data(), 4, hvd::ReduceOp::average, {}, gpu);
  check(hvd::allreduce_async(in.data(), out.data(), 4, hvd::ReduceOp::sum, {}, gpu));
  hvd::broadcast(&value, 1, 0, gpu);
  hvd::synchronize(hvd::broadcast_async(&value, 1, 0, gpu));
  hvd::allgather(in.data(), out.data(), 4, gpu);
  check(hvd::allgather_async(in.data(), out.data(), 4, gpu));
  check(hvd::allgatherv_async(in.data(), out.data(), counts, type, gpu));
  hvd::reducescatter(in.data(), out.data(), 4, hvd::ReduceOp::sum, {}, gpu);
  check(
      hvd::reducescatterv_async(in.data(), out.data(), counts, type, hvd::ReduceOp::sum, {}, gpu));
  hvd::alltoall(in.data(), out.data(), 4, gpu);
  check(hvd::alltoallv_async(in.data(), counts, out.data(), counts, type, gpu));
  hvd::grouped_allreduce({{in.data(), out.data(), 2}, {in.data() + 2, out.data() + 2, 2}}, type,
                         hvd::ReduceOp::sum, {}, gpu);
  check(
      hvd::grouped_allreduce_async({{in.data(), out.data(), 2}, {in.data() + 2, out.data() + 2, 2}},
                                   type, hvd::ReduceOp::sum, {}, gpu));
  // By a kernel of ours.
  check(hvd::allreduce_async(in.data(), out.data(), 4, hvd::ReduceOp::sum, {0.5, 2}, gpu));
  hvd::barrier(gpu);
  // In place, and nothing to calculate: only its end is asked for.
  {
    const std::lock_guard lock(fake().mutex);
    fake().logging = true;
  }
  hvd::allreduce(in.data(), in.data(), 4, hvd::ReduceOp::average, {}, gpu);
  hvd::Handle still = hvd::allreduce_async(in.data(), in.data(), 4, hvd::ReduceOp::sum, {}, gpu);
  CHECK(hvd::wait(still, 20s));
  hvd::synchronize(still);
  {
    const std::lock_guard lock(fake().mutex);
    for (const std::string& call : fake().calls) CHECK_THAT(call, !Catch::Contains("waits"));
    fake().logging = false;
  }
  // Whole numbers of 16 bits, which NCCL cannot reduce.
  std::vector<std::int16_t> small(4, 7);
  hvd::allreduce(small.data(), small.data(), 4, hvd::ReduceOp::sum, {1, 2}, gpu);
  hvd::Handle last = hvd::allreduce_async(in.data(), out.data(), 4, hvd::ReduceOp::max, {}, gpu);
  CHECK(hvd::wait(last, 20s));
  hvd::synchronize(last);
  CHECK(small == std::vector<std::int16_t>(4, 14));
  CHECK_THROWS_WITH(
      hvd::alltoallv(in.data(), counts, out.data(), std::vector<std::size_t>{3}.data(), type, gpu),
      Catch::Contains("rank 0 sends 4 elements to rank 0, which expects 3"));
  hvd::shutdown();
  CHECK(contexts_left() == 0);
  CHECK(fake().nccl_calls == 0);
  CHECK(fake().aborts == 0);
  CHECK(fake().misuses == 0);
}

TEST_CASE("an adaptive sum on GPU memory is one of each buffer", "[api][gpu]") {
  reset_fake();
  MiniJob mini(3);
  check_all_ok(mini.run_threads([](int rank, const EnvironmentLookup& lookup) {
    WorkerJob job(lookup, {});
    // Vectors at right angles are added up, equal ones stay what they are.
    std::vector<float> apart(3);
    apart[static_cast<std::size_t>(rank)] = static_cast<float>(rank + 1);
    std::vector<float> same(4, 5);
    Operation operation;
    operation.kind = OpKind::allreduce;
    operation.parts = {{apart.data(), apart.data(), 3}, {same.data(), same.data(), 4}};
    operation.reduction = {hvd::DataType::float32, hvd::ReduceOp::adasum, 1, 1};
    operation.device = std::make_shared<DeviceUse>();
    Engine& world = job.sets().world();
    const std::uint64_t id = world.submit(operation);
    expect(world.wait(id, 20s), "it has not ended");
    world.synchronize(id);
    expect(apart == std::vector<float>{1, 2, 3} && same == std::vector<float>(4, 5), "wrong sum");
  }));
  CHECK(fake().misuses == 0);
}

TEST_CASE("ranks connect by the id that the fence has brought, by a new one after each init",
          "[api][gpu]") {
  reset_fake();
  fake().logging = true;
  MiniJob mini(3);
  check_all_ok(mini.run_threads([](int rank, const EnvironmentLookup& lookup) {
    for (std::uint32_t generation = 0; generation < 2; ++generation) {
      WorkerJob job(lookup, {});
      sum_on_gpu(job.sets().world(), rank, 6);
    }
  }));
  REQUIRE(mini.blobs.size() == 2);
  CHECK(mini.blobs[0] != mini.blobs[1]);
  for (const std::string& blob : mini.blobs) {
    REQUIRE(blob.size() == sizeof(nccl::UniqueId));
    CHECK(std::count(fake().calls.begin(), fake().calls.end(), "makes " + text_of(blob)) == 1);
    CHECK(std::count(fake().calls.begin(), fake().calls.end(), "connects by " + text_of(blob)) ==
          3);
  }
  CHECK(std::count_if(fake().calls.begin(), fake().calls.end(),
                      [](const std::string& call) { return call.rfind("makes ", 0) == 0; }) == 2);
  CHECK(fake().misuses == 0);
}

TEST_CASE("without an id of the fence the first operation brings one", "[api][gpu]") {
  const std::string brought = GENERATE("", "short");
  reset_fake();
  fake().logging = true;
  MiniJob mini(3);
  mini.change_blob = [&](std::uint32_t, const std::string&) { return brought; };
  check_all_ok(mini.run_threads([](int rank, const EnvironmentLookup& lookup) {
    WorkerJob job(lookup, {});
    sum_on_gpu(job.sets().world(), rank, 6);
  }));
  CHECK(std::count(fake().calls.begin(), fake().calls.end(),
                   "connects by " + text_of(mini.blobs.at(0))) == 0);
  CHECK(fake().destroys == 3);
  CHECK(fake().misuses == 0);
}

TEST_CASE("a rank with another id of the fence is named on every rank", "[api][gpu]") {
  const bool damaged = GENERATE(false, true);
  reset_fake();
  MiniJob mini(3);
  mini.change_blob = [&](std::uint32_t rank, const std::string& blob) {
    if (rank != 2) return blob;
    return damaged ? std::string(blob.size(), 'x') : blob.substr(1);
  };
  check_all_ok(mini.run_threads([](int, const EnvironmentLookup& lookup) {
    WorkerJob job(lookup, {});
    float value = 1;
    Operation operation;
    operation.kind = OpKind::allreduce;
    operation.input = operation.output = &value;
    operation.count = 1;
    operation.reduction = {hvd::DataType::float32, hvd::ReduceOp::sum, 1, 1};
    operation.device = std::make_shared<DeviceUse>();
    for (int turn = 0; turn < 2; ++turn) {
      const std::string error = error_of([&] { job.sets().world().run(operation); });
      expect(error == code(hvd::ErrorCode::internal) +
                          "rank 2 was given another id for NCCL than rank 0 as it joined",
             error);
    }
    operation.device.reset();
    job.sets().world().run(operation);
    expect(value == 3, "the CPU's sum");
  }));
  CHECK(contexts_left() == 0);
}

TEST_CASE("process sets have a communicator each, and nothing is left at the end", "[api][gpu]") {
  // True: split from the job's, where it has one by then.
  const bool split = GENERATE(true, false);
  reset_fake();
  fake().logging = true;
  MiniJob mini(3);
  check_all_ok(mini.run_threads([split](int rank, const EnvironmentLookup& lookup) {
    WorkerJob job(lookup, {});
    expect(job.gpu() == rank, "wrong GPU");
    const auto sum = [&](Engine& engine, float expected) { sum_on_gpu(engine, rank, expected); };
    if (split) sum(job.sets().world(), 6);
    const int id = job.sets().add({0, 2}, "ends");
    if (rank != 1) {
      for (int turn = 0; turn < 10; ++turn) sum(*job.sets().at(id)->engine, 4);
    }
    sum(job.sets().world(), 6);
    job.sets().remove(id);
    sum(job.sets().world(), 6);
  }));
  CHECK(contexts_left() == 0);
  CHECK(fake().splits == (split ? 3 : 0));
  CHECK(std::count_if(fake().calls.begin(), fake().calls.end(), [](const std::string& call) {
          return call.rfind("connects by ", 0) == 0;
        }) == (split ? 3 : 5));
  CHECK(fake().destroys == 5);  // 3 of all ranks, 2 of the set
  CHECK(fake().aborts == 0);
  CHECK(fake().misuses == 0);
}
