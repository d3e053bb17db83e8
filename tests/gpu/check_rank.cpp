#include "tests/gpu/check_rank.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>
#include <unistd.h>

#include "tests/gpu/conformance.h"
#include "tests/gpu/public_api.h"
#include "tests/gpu/sudden_end.h"
#include "worker/hvd/gpu/watch.h"

namespace hvdrun::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

double seconds_since(steady_clock::time_point begin) {
  return std::chrono::duration<double>(steady_clock::now() - begin).count();
}

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr ? value : "";
}

// The parts that all of them need. The device is rank modulo GPUs: tests share one where NCCL is
// told that they are on other hosts (NCCL_HOSTID).
struct Machine {
  explicit Machine(int rank) {
    auto loaded = load_cuda_driver();
    if (!loaded.value) throw std::runtime_error(loaded.why);
    driver = std::move(loaded.value);
    parts.driver = driver;
    auto library = load_nccl(variable(kNcclLibraryVariable));
    if (!library.value) throw std::runtime_error(library.why);
    auto own = load_gpu_kernels(variable("HVD_TEST_KERNELS"));
    parts.kernels = std::move(own.value);
    parts.no_kernels = own.why;
    parts.nccl = std::move(library.value);
    parts.device = std::make_shared<GpuDevice>(*driver, rank % driver->devices);
  }
  std::shared_ptr<const CudaDriver> driver;
  GpuParts parts;
};

}  // namespace

// As GpuExecutor would carry it: made by rank 0's process.
nccl::UniqueId shared_id(const CheckRank& own, const NcclLibrary& nccl) {
  nccl::UniqueId id{};
  if (own.rank == 0) {
    id = NcclCommunicator::make_id(nccl);
    const std::string draft = own.id_file + ".draft";
    std::ofstream(draft, std::ios::binary).write(id.bytes, sizeof(id.bytes));
    std::filesystem::rename(draft, own.id_file);
    return id;
  }
  const auto deadline = steady_clock::now() + 60s;
  while (!std::filesystem::exists(own.id_file)) {
    if (steady_clock::now() > deadline) throw std::runtime_error("rank 0 has made no id");
    std::this_thread::sleep_for(1ms);
  }
  std::ifstream(own.id_file, std::ios::binary).read(id.bytes, sizeof(id.bytes));
  return id;
}

namespace {

// The time that a call takes its caller, and an operation from call to result.
void figures(GpuRank& rank, std::size_t bytes, int rounds) {
  const std::size_t count = bytes / sizeof(float);
  const DeviceBytes data(rank.device, bytes);
  const Bytes zeros(bytes);
  rank.upload(data, zeros);
  const auto once = [&] {
    return rank.communicator.allreduce(data.get(), data.get(), count,
                                       {hvd::DataType::float32, hvd::ReduceOp::average}, rank.call);
  };
  rank.communicator.wait(once(), 60s);
  const auto begin = steady_clock::now();
  double calls = 0;
  for (int i = 0; i < rounds; ++i) {
    const auto call = steady_clock::now();
    const GpuTicket ticket = once();
    calls += seconds_since(call);
    rank.communicator.wait(ticket, 60s);
  }
  const double each = seconds_since(begin) / rounds;
  if (rank.communicator.rank() == 0)
    std::printf("figure: allreduce of %zu bytes, np %d: %.1f us (the call %.1f us), %.2f GB/s\n",
                bytes, rank.communicator.size(), each * 1e6, calls / rounds * 1e6,
                static_cast<double>(bytes) / each / 1e9);
}

void conformance(const CheckRank& own, Machine& machine) {
  NcclCommunicator communicator(machine.parts, own.rank, own.size);
  const auto begin = steady_clock::now();
  if (own.size > 1) communicator.connect(shared_id(own, *machine.parts.nccl), 120s);
  if (own.rank == 0)
    std::printf("figure: a communicator of %d ranks: %.0f ms\n", own.size,
                seconds_since(begin) * 1e3);
  GpuWatch watch;
  watch.add(communicator);
  GpuRank rank(communicator, *machine.parts.device);
  const bool kernels = machine.parts.kernels != nullptr;
  if (!kernels && own.rank == 0)
    std::printf("without our kernels: %s\n", machine.parts.no_kernels.c_str());
  const int cases = run_gpu_conformance(rank, kernels, own.size <= 2 ? 65'537 : 1000);
  if (own.rank == 0) std::printf("%d cases on each of %d ranks\n", cases, own.size);
  figures(rank, 4096, 200);
  figures(rank, 64U << 20, 20);
  // A process set, where this NCCL has them.
  if (own.size > 1 && machine.parts.nccl->api.comm_split != nullptr) {
    auto child = communicator.split({0, 1}, 60s);
    if ((child != nullptr) != (own.rank < 2)) throw std::runtime_error("wrong process set");
    if (child) child->close(30s);
  }
  watch.remove(communicator);
  communicator.close(30s);
}

// Rank 1 never takes part, from the first operation on, in which NCCL connects the ranks, or after
// one (`met`): the error comes in time, and the GPU is free again.
void abort_of_a_wait(const CheckRank& own, Machine& machine, bool met) {
  NcclCommunicator communicator(machine.parts, own.rank, own.size);
  communicator.connect(shared_id(own, *machine.parts.nccl), 120s);
  GpuRank rank(communicator, *machine.parts.device);
  const DeviceBytes data(*machine.parts.device, 1U << 20);
  const auto once = [&] {
    return communicator.allreduce(data.get(), data.get(), data.size() / sizeof(float),
                                  {hvd::DataType::float32, hvd::ReduceOp::sum}, rank.call);
  };
  if (met) communicator.wait(once(), 60s);
  if (own.rank != 0) {
    std::this_thread::sleep_for(8s);
    return;
  }
  GpuWatch watch;
  watch.add(communicator);
  constexpr auto kTimeout = 2s;
  constexpr double kLate = 0.2;
  rank.call.timeout = kTimeout;
  const auto begin = steady_clock::now();
  std::string text;
  try {
    communicator.wait(once(), 30s);
  } catch (const hvd::Error& error) {
    text = error.what();
  }
  const double told = seconds_since(begin);
  watch.remove(communicator);
  // The streams must run again, the program's too, which waits for the operation: NCCL's kernel has
  // left.
  communicator.abort({hvd::ErrorCode::internal, "the end of the abort is waited for"});
  GpuStream other(*machine.parts.device);
  for (GpuStream* const stream : {&rank.user, &other}) {
    const CurrentDevice current(*machine.parts.device);
    cuda::Event event = stream->lead(stream->get());
    while (!stream->has_ended(event)) {
      if (seconds_since(begin) > 20) throw std::runtime_error("the GPU is not free");
      std::this_thread::yield();
    }
    stream->recycle(event);
  }
  std::printf("figure: a rank takes no part (%s): after 2 s told at %.0f ms, free at %.0f ms; %s\n",
              met ? "had met" : "had not met", told * 1e3, seconds_since(begin) * 1e3,
              text.c_str());
  if (text.find("after 2 s; another rank did not take part") == std::string::npos)
    throw std::runtime_error("another error: " + text);
  if (told > std::chrono::duration<double>(kTimeout).count() + kLate)
    throw std::runtime_error("told too late");
}

// Rank 1 dies: does NCCL tell it, and when? The launcher's news would come within a second.
void death_of_a_peer(const CheckRank& own, Machine& machine) {
  NcclCommunicator communicator(machine.parts, own.rank, own.size);
  communicator.connect(shared_id(own, *machine.parts.nccl), 120s);
  GpuRank rank(communicator, *machine.parts.device);
  const DeviceBytes data(*machine.parts.device, 1U << 20);
  const auto once = [&] {
    return communicator.allreduce(data.get(), data.get(), data.size() / sizeof(float),
                                  {hvd::DataType::float32, hvd::ReduceOp::sum}, rank.call);
  };
  communicator.wait(once(), 60s);
  if (own.rank != 0) ::_exit(0);
  rank.call.timeout = 10s;
  const auto begin = steady_clock::now();
  std::string text;
  try {
    communicator.wait(once(), 30s);
  } catch (const hvd::Error& error) {
    text = error.what();
  }
  if (text.empty()) throw std::runtime_error("an allreduce without rank 1 has ended");
  std::printf("figure: a peer's death was an error after %.0f ms: %s\n", seconds_since(begin) * 1e3,
              text.c_str());
}

template <class T>
Bytes as_bytes(const std::vector<T>& values) {
  Bytes bytes(values.size() * sizeof(T));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

void expect(bool good, const char* what) {
  if (!good) throw std::runtime_error(std::string("wrong result: ") + what);
}

// Compression there and back, and Adasum, against the same in float64 on the CPU. Scaling and
// booleans are part of the conformance.
void kernels_alone(Machine& machine) {
  if (!machine.parts.kernels) throw std::runtime_error(machine.parts.no_kernels);
  const GpuKernels& kernels = *machine.parts.kernels;
  NcclCommunicator communicator(machine.parts, 0, 1);
  const GpuDevice& device = *machine.parts.device;
  GpuRank rank(communicator, device);
  constexpr std::size_t kCount = 100'003;
  std::vector<float> a(kCount);
  std::vector<float> b(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    a[i] = std::sin(static_cast<float>(i));
    b[i] = std::cos(static_cast<float>(i) * 0.5F);
  }
  const Bytes a_bytes = as_bytes(a);
  const Bytes b_bytes = as_bytes(b);
  const DeviceBytes a_there(device, a_bytes.size());
  const DeviceBytes b_there(device, b_bytes.size());
  const DeviceBytes small(device, kCount * 2);
  const DeviceBytes output(device, a_bytes.size());
  rank.upload(a_there, a_bytes);
  rank.upload(b_there, b_bytes);
  void* const stream = rank.user.get();
  for (const auto& [type, precision] :
       {std::pair{hvd::DataType::float16, 1e-3}, std::pair{hvd::DataType::bfloat16, 8e-3}}) {
    const int number = static_cast<int>(type);
    expect(kernels.compress(a_there.get(), small.get(), kCount, number, stream) == 0, "compress");
    expect(kernels.decompress(small.get(), output.get(), kCount, number, stream) == 0,
           "decompress");
    const Bytes got = rank.download(output);
    for (std::size_t i = 0; i < kCount; ++i) {
      float value = 0;
      std::memcpy(&value, got.data() + i * sizeof(value), sizeof(value));
      expect(std::abs(value - a[i]) <= precision * std::abs(a[i]) + 1e-6, "compression");
    }
  }
  const DeviceBytes scratch(device, kernels.adasum_scratch() * sizeof(double));
  const int type = static_cast<int>(hvd::DataType::float32);
  auto* const dots = static_cast<double*>(scratch.get());
  expect(kernels.adasum_dots(a_there.get(), b_there.get(), kCount, type, dots, stream) == 0,
         "adasum_dots");
  expect(kernels.adasum_combine(a_there.get(), b_there.get(), output.get(), kCount, type, dots,
                                stream) == 0,
         "adasum_combine");
  const Bytes got = rank.download(output);
  std::array<double, 3> sums{};
  for (std::size_t i = 0; i < kCount; ++i) {
    sums[0] += double{a[i]} * double{b[i]};
    sums[1] += double{a[i]} * double{a[i]};
    sums[2] += double{b[i]} * double{b[i]};
  }
  for (std::size_t i = 0; i < kCount; ++i) {
    float value = 0;
    std::memcpy(&value, got.data() + i * sizeof(value), sizeof(value));
    const double wanted =
        (1 - sums[0] / (2 * sums[1])) * double{a[i]} + (1 - sums[0] / (2 * sums[2])) * double{b[i]};
    expect(std::abs(double{value} - wanted) <= 1e-5, "Adasum");
  }
  communicator.close(30s);
}

}  // namespace

void run_check_rank(const CheckRank& rank) {
  if (rank.what == "public-api") return run_public_api();
  if (rank.what.rfind(kSuddenEnd, 0) == 0) return end_suddenly(rank);
  Machine machine(rank.rank);
  if (rank.what == "conformance") return conformance(rank, machine);
  if (rank.what == "abort-met") return abort_of_a_wait(rank, machine, true);
  if (rank.what == "abort-not-met") return abort_of_a_wait(rank, machine, false);
  if (rank.what == "peer") return death_of_a_peer(rank, machine);
  kernels_alone(machine);
}

}  // namespace hvdrun::test
