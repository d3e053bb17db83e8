// Communicators over the fake driver and NCCL: results, order of calls, what is left behind.
#include <atomic>
#include <cmath>
#include <thread>

#include "tests/gpu/conformance.h"
#include "tests/unit/worker/hvd/gpu/fake_ranks.h"
#include "worker/hvd/gpu/watch.h"

using namespace hvdrun;
using namespace hvdrun::test;
using Lines = std::vector<std::string>;

TEST_CASE("all collectives give what they promise", "[gpu][nccl]") {
  for (const int size : {1, 2, 3, 5}) {
    FakeRanks ranks(size);
    REQUIRE(ranks.connect() == nothing_wrong(size));
    const auto errors = ranks.run([&](int rank) {
      GpuRank own(ranks.at(rank), *ranks.devices[static_cast<std::size_t>(rank)]);
      if (run_gpu_conformance(own, true, 1000) < 500) throw std::runtime_error("few cases");
    });
    CHECK(errors == nothing_wrong(size));
    CHECK(ranks.run([&](int rank) { ranks.at(rank).close(20s); }) == nothing_wrong(size));
    CHECK(fake().misuses == 0);
    CHECK(fake().redops == 0);
    // One rank alone calls no NCCL.
    CHECK(fake().destroys == (size == 1 ? 0 : size));
    CHECK((fake().nccl_calls == 1) == (size == 1));  // the id is FakeRanks' own
    CHECK(fake().aborts == 0);
  }
}

TEST_CASE("min and max of floats pass through little memory, in rounds", "[gpu][nccl]") {
  constexpr std::size_t kLimit = 256;
  FakeRanks ranks(3, kLimit);
  REQUIRE(ranks.connect() == nothing_wrong(3));
  const auto errors = ranks.run([&](int rank) {
    GpuRank own(ranks.at(rank), *ranks.devices[static_cast<std::size_t>(rank)]);
    if (run_gpu_number_rules(own, true) < 100) throw std::runtime_error("few cases");
    // An allreduce of float32 and float64 takes none.
    fake().largest_scratch = 0;
    own.communicator.barrier(own.call);
    std::vector<double> data(100, rank);
    own.communicator.allreduce(data.data(), data.data(), data.size(),
                               {hvd::DataType::float64, hvd::ReduceOp::max}, own.call);
    own.drain();
    if (data != std::vector<double>(100, 2)) throw std::runtime_error("wrong maximum");
  });
  CHECK(errors == nothing_wrong(3));
  CHECK(fake().largest_scratch == sizeof(std::int32_t));  // the barrier's
  CHECK(fake().misuses == 0);
}

TEST_CASE("min and max of many 16-bit floats take no more than their limit", "[gpu][nccl]") {
  constexpr std::size_t kLimit = 256;
  FakeRanks ranks(2, kLimit);
  REQUIRE(ranks.connect() == nothing_wrong(2));
  const auto errors = ranks.run([&](int rank) {
    GpuRank own(ranks.at(rank), *ranks.devices[static_cast<std::size_t>(rank)]);
    constexpr std::uint16_t kNan = 0x7e00;
    std::vector<std::uint16_t> data(1000, static_cast<std::uint16_t>(0x3c00 + rank));
    data[static_cast<std::size_t>(rank)] = kNan;
    const std::size_t counts[] = {400, 600};
    const Reduction max{hvd::DataType::float16, hvd::ReduceOp::max};
    own.communicator.reducescatter(data.data(), data.data(), counts, max, own.call);
    own.drain();
    for (std::size_t i = 0; i < counts[rank]; ++i) {
      const bool nan = rank == 0 && i < 2;
      if (nan ? (data[i] & 0x7fffU) <= 0x7c00 : data[i] != 0x3c01)
        throw std::runtime_error("wrong element " + std::to_string(i));
    }
  });
  CHECK(errors == nothing_wrong(2));
  CHECK(fake().largest_scratch > 0);
  CHECK(fake().largest_scratch <= kLimit);
}

TEST_CASE("one rank's averages and factors reach the last element", "[gpu][nccl]") {
  // NCCL 2.28 itself, and the fake like it, leaves the tail out.
  FakeRanks ranks(1);
  REQUIRE(ranks.connect() == nothing_wrong(1));
  constexpr std::size_t kCount = 65'537;
  const std::vector<double> from(kCount, 3);
  std::vector<double> average(kCount);
  std::vector<double> scaled(kCount);
  const auto errors = ranks.run([&](int) {
    const GpuStream user(*ranks.devices[0]);
    const GpuCall call{user.get(), 20s};
    const auto type = hvd::DataType::float64;
    NcclCommunicator& own = ranks.at(0);
    own.allreduce(from.data(), average.data(), kCount, {type, hvd::ReduceOp::average}, call);
    own.wait(own.reducescatter(from.data(), scaled.data(), &kCount,
                               {type, hvd::ReduceOp::sum, 2, 1}, call),
             20s);
  });
  CHECK(errors == nothing_wrong(1));
  CHECK((average == from));  // 65,537 numbers are no message
  CHECK((scaled == std::vector<double>(kCount, 6)));
}

TEST_CASE("an operation stands between events, both ways, on a stream of its own", "[gpu][nccl]") {
  const int size = GENERATE(1, 2);
  FakeRanks ranks(size);
  REQUIRE(ranks.connect() == nothing_wrong(size));
  CHECK(fake().priority == -5);  // the highest that the driver has
  GpuStream user(*ranks.devices[0]);
  std::vector<float> values(2, 3);
  std::atomic<bool> other_is_queued{size == 1};
  const auto errors = ranks.run([&](int rank) {
    while (rank == 0 && !other_is_queued) std::this_thread::yield();
    if (rank == 0) fake().logging = true;
    float& value = values[static_cast<std::size_t>(rank)];
    const GpuTicket ticket = ranks.at(rank).allreduce(
        &value, &value, 1, {hvd::DataType::float32, hvd::ReduceOp::max, 2, 1},
        {rank == 0 ? user.get() : nullptr, 20s});
    other_is_queued = true;
    ranks.at(rank).wait(ticket, 20s);
  });
  CHECK(errors == nothing_wrong(size));
  CHECK(values[0] == 6);
  // The current context is another matter.
  std::erase_if(fake().calls,
                [](const std::string& call) { return call.rfind("current ", 0) == 0; });
  REQUIRE(fake().calls.size() == (size == 1 ? 5 : 9));
  const std::string theirs = fake().calls[0].substr(0, fake().calls[0].find(" records"));
  const std::string ours = fake().calls[1].substr(0, fake().calls[1].find(" waits"));
  CHECK(theirs != ours);
  Lines wanted{theirs + " records", ours + " waits", (size > 1 ? "order on " : "scale on ") + ours};
  if (size > 1)
    for (const std::string& call : {std::string("group_start"), "all_reduce on " + ours,
                                    std::string("group_end"), "restore on " + ours})
      wanted.push_back(call);
  wanted.push_back(ours + " records");
  wanted.push_back(theirs + " waits");
  CHECK(fake().calls == wanted);
}

TEST_CASE("many operations may be under way, and end in order", "[gpu][nccl]") {
  FakeRanks ranks(2);
  REQUIRE(ranks.connect() == nothing_wrong(2));
  std::vector<float> values(2, 1);
  const auto errors = ranks.run([&](int rank) {
    NcclCommunicator& own = ranks.at(rank);
    GpuTicket last = 0;
    for (int i = 0; i < 50; ++i) {
      const GpuTicket ticket = sum_one(own, values[static_cast<std::size_t>(rank)]);
      if (ticket != last + 1) throw std::runtime_error("tickets are not in a row");
      last = ticket;
    }
    own.wait(last, 20s);
    if (!own.has_ended(1) || !own.has_ended(last) || !own.has_ended(0))
      throw std::runtime_error("not ended");
    if (own.has_ended(last + 1)) throw std::runtime_error("ended before it began");
  });
  CHECK(errors == nothing_wrong(2));
  CHECK(values == std::vector<float>(2, std::ldexp(1.0F, 50)));
  CHECK(fake().misuses == 0);
}

TEST_CASE("the caller's current device stays its own", "[gpu][nccl]") {
  FakeRanks ranks(2);
  REQUIRE(ranks.connect() == nothing_wrong(2));
  std::vector<float> values(2, 1);
  const auto errors = ranks.run([&](int rank) {
    const auto& device = *ranks.devices[static_cast<std::size_t>(rank)];
    cuda::Context other = ranks.devices[static_cast<std::size_t>(1 - rank)]->context();
    device.api().context_set_current(other);
    const GpuTicket ticket = sum_one(ranks.at(rank), values[static_cast<std::size_t>(rank)]);
    ranks.at(rank).wait(ticket, 20s);
    cuda::Context now = nullptr;
    device.api().context_pop(&now);
    if (now != other) throw std::runtime_error("another device is current");
  });
  CHECK(errors == nothing_wrong(2));
}

TEST_CASE("what needs our kernels says so where there are none", "[gpu][nccl]") {
  const int size = GENERATE(1, 2);
  FakeRanks ranks(size);
  std::vector<float> values(2, 2);
  const auto errors = ranks.run([&](int rank) {
    GpuParts parts = ranks.parts(rank);
    parts.kernels = nullptr;
    parts.no_kernels = "hvdrun's GPU kernels are not installed (why)";
    NcclCommunicator own(parts, rank, size);
    own.connect(ranks.id(), 20s);
    float& value = values[static_cast<std::size_t>(rank)];
    const auto reduce = [&](hvd::ReduceOp op, double before, double after) -> std::string {
      try {
        own.wait(own.allreduce(&value, &value, 1, {hvd::DataType::float32, op, before, after}, {}),
                 20s);
        return "";
      } catch (const hvd::Error& error) {
        return error.what();
      }
    };
    const std::string words =
        "scale factors and booleans on a GPU: hvdrun's GPU kernels are not installed (why)";
    if (reduce(hvd::ReduceOp::sum, 1, 2) != words) throw std::runtime_error("no error");
    // An error of the arguments: the communicator goes on. NCCL scales itself where it is called.
    const bool alone = size == 1;
    if (reduce(hvd::ReduceOp::sum, 0.5, 1) != (alone ? words : ""))
      throw std::runtime_error("a factor before");
    const std::string max = reduce(hvd::ReduceOp::max, 1, 1);
    if (max != (alone ? ""
                      : "min and max of floating-point numbers on a GPU: hvdrun's GPU kernels are "
                        "not installed (why)"))
      throw std::runtime_error("a maximum: " + max);
    const std::string plain = reduce(hvd::ReduceOp::average, 1, 1);
    if (!plain.empty()) throw std::runtime_error(plain);
    const bool adasum = reduce(hvd::ReduceOp::adasum, 1, 1).empty();
    if (adasum != alone) throw std::runtime_error("adasum");
    own.close(20s);
  });
  CHECK(errors == nothing_wrong(size));
  CHECK(values[0] == 2);
}

TEST_CASE("one rank alone needs no NCCL at all", "[gpu][nccl]") {
  FakeRanks ranks(1);
  GpuParts parts = ranks.parts(0);
  parts.nccl = nullptr;
  fake().nccl_calls = 0;
  {
    NcclCommunicator own(parts, 0, 1, {7});
    own.connect({}, 20s);
    CHECK_FALSE(own.may_split());
    auto set = own.split({0}, 20s);
    REQUIRE(set);
    const GpuStream user(*ranks.devices[0]);
    std::vector<std::int16_t> from(1000, -5);
    std::vector<std::int16_t> to(1000);
    set->wait(set->allreduce(from.data(), to.data(), 1000,
                             {hvd::DataType::int16, hvd::ReduceOp::average, 3, 0.5}, {user.get()}),
              20s);
    CHECK(to == std::vector<std::int16_t>(1000, -7));  // truncated
    own.barrier({user.get()});
    CHECK_FALSE(own.look(std::chrono::steady_clock::now()));
    own.close(20s);
    CHECK_THROWS_WITH(own.barrier({user.get()}),
                      "the communicator of rank 7 on GPU 0 (Fake) has been closed");
  }
  CHECK(fake().nccl_calls == 0);
}

TEST_CASE("a process set of one rank is no matter of NCCL's", "[gpu][nccl]") {
  FakeRanks ranks(3);
  REQUIRE(ranks.connect() == nothing_wrong(3));
  const auto errors = ranks.run([&](int rank) {
    auto child = ranks.at(rank).split({1}, 20s);
    if ((child != nullptr) != (rank == 1)) throw std::runtime_error("wrong members");
    float value = 3;
    if (child) child->wait(sum_one(*child, value), 20s);
    if (value != 3) throw std::runtime_error("wrong sum");
  });
  CHECK(errors == nothing_wrong(3));
  CHECK(fake().splits == 0);
}

TEST_CASE("a process set has a communicator of its own", "[gpu][nccl]") {
  FakeRanks ranks(4);
  REQUIRE(ranks.connect() == nothing_wrong(4));
  std::vector<float> values(4, 1);
  const auto errors = ranks.run([&](int rank) {
    auto child = ranks.at(rank).split({1, 3}, 20s);
    if ((child != nullptr) != (rank % 2 == 1)) throw std::runtime_error("wrong members");
    float& value = values[static_cast<std::size_t>(rank)];
    if (child != nullptr) {
      if (child->rank() != rank / 2 || child->size() != 2) throw std::runtime_error("wrong rank");
      child->wait(sum_one(*child, value), 20s);
      child->close(20s);
    }
    ranks.at(rank).wait(sum_one(ranks.at(rank), value), 20s);
  });
  CHECK(errors == nothing_wrong(4));
  CHECK(values == std::vector<float>(4, 6));
  CHECK(fake().misuses == 0);
}

TEST_CASE("the device is selected before any context exists", "[gpu][device]") {
  reset_fake();
  const auto none = select_device(0, 1, "", "/nowhere/libcuda.so.1");
  CHECK(none.device == nullptr);
  CHECK(none.why == "CUDA_VISIBLE_DEVICES names no GPU");
  const auto missing = select_device(0, 1, nullptr, "/nowhere/libcuda.so.1");
  CHECK(missing.device == nullptr);
  CHECK_THAT(missing.why, Catch::StartsWith("there is no NVIDIA driver here: /nowhere/"));
  const int before = fake().contexts;
  {
    const auto selected = select_device(2, 4, nullptr, fake_file());
    REQUIRE(selected.device);
    CHECK(selected.device->ordinal() == 2);
    CHECK(selected.device->words() == "GPU 2 (Fake)");
    CHECK(selected.device->uuid().bytes[0] == 3);
    CHECK(fake().contexts == before + 1);
  }
  CHECK(fake().contexts == before);
  fake().devices = 2;
  CHECK_THROWS_WITH(select_device(2, 4, nullptr, fake_file()),
                    Catch::StartsWith("this host has 4 ranks and 2 GPUs: "));
  CHECK(fake().contexts == before);
}
