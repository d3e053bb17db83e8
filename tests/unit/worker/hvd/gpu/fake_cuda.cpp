// The fake driver.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <thread>
#include <vector>

#include "tests/unit/worker/hvd/gpu/fake_gpu.h"
#include "tests/unit/worker/hvd/gpu/fake_stream.h"
#include "worker/hvd/gpu/cuda_api.h"

namespace hvdrun::test {
namespace {

struct State {
  std::mutex mutex;
  std::map<void*, std::unique_ptr<FakeStream>> streams;
  std::map<void*, std::shared_ptr<FakeEvent>> events;
  int made = 0;
};
// Never destroyed: streams' threads may still run at the end of the process.
State& state() {
  static State& one = *new State;
  return one;
}
thread_local std::vector<cuda::Context> contexts;

constexpr cuda::Result kInvalidContext = 201;
constexpr cuda::Result kInvalidHandle = 400;
constexpr cuda::Result kCaptureUnsupported = 900;
constexpr cuda::Result kCaptureUnjoined = 904;
constexpr cuda::Result kCaptureIsolation = 905;
constexpr cuda::Result kCapturedEvent = 907;

// Under way, of the mode "global", which forbids other threads what could disturb.
std::atomic<int> captures{0};
thread_local int capture_mode = 0;

// One, or what is launched of it.
struct FakeGraph {
  explicit FakeGraph(std::shared_ptr<FakeCapture> from) : capture(std::move(from)) {
    const std::lock_guard lock(capture->mutex);
    ++capture->graphs;
  }
  FakeGraph(const FakeGraph&) = delete;
  FakeGraph& operator=(const FakeGraph&) = delete;
  ~FakeGraph() {
    std::vector<std::function<void()>> gone;
    const std::lock_guard lock(capture->mutex);
    if (--capture->graphs == 0) gone.swap(capture->work);
  }
  std::shared_ptr<FakeCapture> capture;
};

template <class To>
To handle_of(std::uintptr_t number) {
  return reinterpret_cast<To>(number);  // NOLINT(performance-no-int-to-ptr)
}

std::shared_ptr<FakeEvent> event_of(cuda::Event event) {
  const std::lock_guard lock(state().mutex);
  return state().events.at(event);
}

void* memory(cuda::DevicePointer pointer) {
  return handle_of<void*>(static_cast<std::uintptr_t>(pointer));
}

void hold(FakeStream& stream) {
  stream.push([] {
    while (fake_gpu()->held) std::this_thread::sleep_for(std::chrono::microseconds(200));
  });
}

}  // namespace

FakeStream& fake_stream(void* stream) {
  const std::lock_guard lock(state().mutex);
  // Each context has a default stream.
  if (stream == nullptr && has_context()) stream = contexts.back();
  auto& found = state().streams[stream];
  if (!found) found = std::make_unique<FakeStream>(0);
  return *found;
}

std::string name_of(void* stream) {
  return "stream " + std::to_string(fake_stream(stream).number());
}

std::int64_t gpu_time() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
             .count() +
         fake_gpu()->clock_ahead;
}

bool has_context() {
  crash_if_ended();
  return !contexts.empty() && contexts.back() != nullptr;
}

void crash_if_ended() {
  if (!fake_gpu()->ended) return;
  // A real one: a thread that blocks all signals is not spared it.
  static volatile int* const nowhere = nullptr;
  *nowhere = 1;
}

}  // namespace hvdrun::test

using namespace hvdrun;
using namespace hvdrun::test;

#define FAKE extern "C" __attribute__((visibility("default")))

FAKE FakeGpu* fake_gpu() {
  static FakeGpu* const one = [] {
    auto* const made = new FakeGpu;
    // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody changes it
    const char* const result = std::getenv("HVD_FAKE_CONTEXT_RESULT");
    if (result != nullptr) made->context_result = std::atoi(result);
    return made;
  }();
  return one;
}

FAKE void fake_hold(void* stream) { hold(fake_stream(stream)); }

FAKE cuda::Result cuInit(unsigned) {
  // As the real one, which gives all back that it has.
  static const int registered = std::atexit([] {
    fake_gpu()->ended = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(fake_gpu()->end_takes_ms));
  });
  return registered == 0 ? cuda::kSuccess : 2;
}
FAKE cuda::Result cuDriverGetVersion(int* version) {
  *version = 13000;
  return cuda::kSuccess;
}
FAKE cuda::Result cuGetErrorName(cuda::Result, const char** text) {
  *text = "FAKE_ERROR";
  return cuda::kSuccess;
}
FAKE cuda::Result cuGetErrorString(cuda::Result, const char** text) {
  *text = "a fault of the fake";
  return cuda::kSuccess;
}
FAKE cuda::Result cuDeviceGetCount(int* count) {
  *count = fake_gpu()->devices;
  return cuda::kSuccess;
}
FAKE cuda::Result cuDeviceGet(cuda::Device* device, int ordinal) {
  *device = ordinal;
  return ordinal < fake_gpu()->devices ? cuda::kSuccess : 101;
}
FAKE cuda::Result cuDeviceGetName(char* name, int length, cuda::Device) {
  std::strncpy(name, "Fake", static_cast<std::size_t>(length));
  return cuda::kSuccess;
}
FAKE cuda::Result cuDeviceGetUuid_v2(cuda::Uuid* uuid, cuda::Device device) {
  std::memset(uuid->bytes, device + 1, sizeof(uuid->bytes));
  return cuda::kSuccess;
}
FAKE cuda::Result cuDevicePrimaryCtxRetain(cuda::Context* context, cuda::Device device) {
  ++fake_gpu()->contexts;
  fake_gpu()->log("retain " + std::to_string(device));
  *context = handle_of<cuda::Context>(static_cast<std::uintptr_t>(device) + 1);
  return cuda::kSuccess;
}
FAKE cuda::Result cuDevicePrimaryCtxRelease_v2(cuda::Device) {
  crash_if_ended();
  --fake_gpu()->contexts;
  return cuda::kSuccess;
}
FAKE cuda::Result cuCtxSetCurrent(cuda::Context context) {
  fake_gpu()->log("current " + std::to_string(reinterpret_cast<std::uintptr_t>(context) - 1));
  if (contexts.empty()) contexts.emplace_back();
  contexts.back() = context;
  return cuda::kSuccess;
}
FAKE cuda::Result cuCtxPushCurrent_v2(cuda::Context context) {
  crash_if_ended();
  if (fake_gpu()->closed) return cuda::kDeinitialized;
  contexts.push_back(context);
  return cuda::kSuccess;
}
FAKE cuda::Result cuCtxPopCurrent_v2(cuda::Context* context) {
  crash_if_ended();
  if (contexts.empty()) return kInvalidContext;
  *context = contexts.back();
  contexts.pop_back();
  return cuda::kSuccess;
}
FAKE cuda::Result cuCtxSynchronize() {
  if (!has_context()) return kInvalidContext;
  while (fake_gpu()->context_hangs) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return fake_gpu()->context_result;
}
FAKE cuda::Result cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return has_context() ? cuda::kSuccess : kInvalidContext;
}
FAKE cuda::Result cuStreamCreateWithPriority(cuda::Stream* stream, unsigned flags, int priority) {
  if (!has_context()) return kInvalidContext;
  if (flags != cuda::kStreamNonBlocking) ++fake_gpu()->misuses;
  fake_gpu()->priority = priority;
  const std::lock_guard lock(state().mutex);
  auto made = std::make_unique<FakeStream>(++state().made);
  *stream = reinterpret_cast<cuda::Stream>(made.get());
  if (fake_gpu()->new_streams_held) hold(*made);
  state().streams[*stream] = std::move(made);
  return cuda::kSuccess;
}
FAKE cuda::Result cuStreamDestroy_v2(cuda::Stream stream) {
  crash_if_ended();
  std::unique_ptr<FakeStream> ended;
  {
    const std::lock_guard lock(state().mutex);
    ended = std::move(state().streams.at(stream));
    state().streams.erase(stream);
  }
  // As the driver does it: what is on it is not waited for.
  std::thread([stream = std::move(ended)]() mutable { stream.reset(); }).detach();
  return cuda::kSuccess;
}
FAKE cuda::Result cuStreamWaitEvent(cuda::Stream stream, cuda::Event event, unsigned) {
  crash_if_ended();
  fake_gpu()->log(name_of(stream) + " waits");
  if (fake_stream(stream).wait(event_of(event))) return cuda::kSuccess;
  ++fake_gpu()->misuses;
  return kCaptureIsolation;
}
FAKE cuda::Result cuEventCreate(cuda::Event* event, unsigned flags) {
  if (!has_context()) return kInvalidContext;
  auto made = std::make_shared<FakeEvent>();
  made->timing = flags == cuda::kEventWithTiming;
  if (made->timing)
    ++fake_gpu()->timing_events;
  else if (flags != cuda::kEventDisableTiming)
    ++fake_gpu()->misuses;
  *event = reinterpret_cast<cuda::Event>(made.get());
  const std::lock_guard lock(state().mutex);
  state().events[*event] = std::move(made);
  return cuda::kSuccess;
}
FAKE cuda::Result cuEventDestroy_v2(cuda::Event event) {
  crash_if_ended();
  const std::lock_guard lock(state().mutex);
  if (state().events.erase(event) != 1) ++fake_gpu()->misuses;
  return cuda::kSuccess;
}
FAKE cuda::Result cuEventRecord(cuda::Event event, cuda::Stream stream) {
  if (!has_context()) return kInvalidContext;
  fake_gpu()->log(name_of(stream) + " records");
  fake_stream(stream).record(event_of(event));
  return cuda::kSuccess;
}
FAKE cuda::Result cuEventQuery(cuda::Event event) {
  if (!has_context()) return kInvalidContext;
  if (captures > 0 && capture_mode != cuda::kCaptureModeRelaxed) {
    ++fake_gpu()->misuses;
    return kCaptureUnsupported;
  }
  const auto found = event_of(event);
  const std::lock_guard lock(found->mutex);
  if (found->capture) {
    ++fake_gpu()->misuses;
    return kCapturedEvent;
  }
  return found->reached >= found->recorded ? cuda::kSuccess : cuda::kNotReady;
}
FAKE cuda::Result cuEventElapsedTime(float* milliseconds, cuda::Event begin, cuda::Event end) {
  std::int64_t times[2] = {};
  const cuda::Event events[2] = {begin, end};
  for (int i = 0; i < 2; ++i) {
    const auto found = event_of(events[i]);
    const std::lock_guard lock(found->mutex);
    if (!found->timing || found->recorded == 0) {
      ++fake_gpu()->misuses;
      return kInvalidHandle;
    }
    if (found->reached < found->recorded) return cuda::kNotReady;
    times[i] = found->time;
  }
  *milliseconds = static_cast<float>(static_cast<double>(times[1] - times[0]) / 1e6);
  return cuda::kSuccess;
}
FAKE cuda::Result cuStreamIsCapturing(cuda::Stream stream, int* status) {
  crash_if_ended();
  *status = fake_stream(stream).capture() ? 1 : cuda::kCaptureNone;
  return cuda::kSuccess;
}
FAKE cuda::Result cuThreadExchangeStreamCaptureMode(int* mode) {
  crash_if_ended();
  std::swap(*mode, capture_mode);
  return cuda::kSuccess;
}
FAKE cuda::Result cuStreamBeginCapture_v2(cuda::Stream stream, int mode) {
  FakeStream& origin = fake_stream(stream);
  if (origin.capture() || mode != 0) return kCaptureUnsupported;
  auto capture = std::make_shared<FakeCapture>();
  capture->origin = &origin;
  origin.set_capture(std::move(capture));
  ++captures;
  return cuda::kSuccess;
}
FAKE cuda::Result cuStreamEndCapture(cuda::Stream stream, FakeGraph** graph) {
  const auto capture = fake_stream(stream).capture();
  if (!capture) return kCaptureUnsupported;
  --captures;
  bool joined = true;
  std::vector<FakeStream*> streams{&fake_stream(stream)};
  {
    const std::lock_guard lock(capture->mutex);
    for (const auto& [forked, last] : capture->last) {
      streams.push_back(forked);
      joined = joined && (forked == capture->origin || capture->joined[forked] >= last);
    }
    capture->origin = nullptr;
  }
  for (FakeStream* const one : streams) one->set_capture(nullptr);
  if (!joined) ++fake_gpu()->misuses;
  *graph = new FakeGraph{capture};
  return joined ? cuda::kSuccess : kCaptureUnjoined;
}
FAKE cuda::Result cuGraphInstantiateWithFlags(FakeGraph** made, FakeGraph* graph,
                                              unsigned long long) {
  *made = new FakeGraph(graph->capture);
  return cuda::kSuccess;
}
FAKE cuda::Result cuGraphLaunch(FakeGraph* graph, cuda::Stream stream) {
  for (const auto& work : graph->capture->work) fake_stream(stream).push(work);
  return cuda::kSuccess;
}
FAKE cuda::Result cuGraphExecDestroy(FakeGraph* graph) {
  delete graph;
  return cuda::kSuccess;
}
FAKE cuda::Result cuGraphDestroy(FakeGraph* graph) {
  for (void* memory : graph->capture->memory) std::free(memory);
  delete graph;
  return cuda::kSuccess;
}
FAKE cuda::Result cuMemAlloc_v2(cuda::DevicePointer* pointer, std::size_t bytes) {
  void* const made = std::malloc(bytes);
  if (made == nullptr) return 2;
  std::memset(made, 0xa5, bytes);  // as a GPU's memory: what was there
  *pointer = cuda::device_pointer(made);
  return has_context() ? cuda::kSuccess : kInvalidContext;
}
FAKE cuda::Result cuMemFree_v2(cuda::DevicePointer pointer) {
  crash_if_ended();
  std::free(memory(pointer));
  return cuda::kSuccess;
}
FAKE cuda::Result cuMemAllocAsync(cuda::DevicePointer* pointer, std::size_t bytes, cuda::Stream) {
  std::size_t largest = fake_gpu()->largest_scratch;
  while (bytes > largest && !fake_gpu()->largest_scratch.compare_exchange_weak(largest, bytes)) {
  }
  return cuMemAlloc_v2(pointer, bytes);
}
FAKE cuda::Result cuMemFreeAsync(cuda::DevicePointer pointer, cuda::Stream stream) {
  crash_if_ended();
  if (const auto capture = fake_stream(stream).capture()) {
    fake_stream(stream).push([] {});  // a part of the graph, which must be joined
    const std::lock_guard lock(capture->mutex);
    capture->memory.push_back(memory(pointer));
    return cuda::kSuccess;
  }
  fake_stream(stream).push([pointer] { std::free(memory(pointer)); });
  return cuda::kSuccess;
}
FAKE cuda::Result cuMemcpyDtoDAsync_v2(cuda::DevicePointer to, cuda::DevicePointer from,
                                       std::size_t bytes, cuda::Stream stream) {
  fake_stream(stream).push([=] { std::memcpy(memory(to), memory(from), bytes); });
  return cuda::kSuccess;
}
FAKE cuda::Result cuMemcpyHtoDAsync_v2(cuda::DevicePointer to, const void* from, std::size_t bytes,
                                       cuda::Stream stream) {
  return cuMemcpyDtoDAsync_v2(to, cuda::device_pointer(from), bytes, stream);
}
FAKE cuda::Result cuMemcpyDtoHAsync_v2(void* to, cuda::DevicePointer from, std::size_t bytes,
                                       cuda::Stream stream) {
  return cuMemcpyDtoDAsync_v2(cuda::device_pointer(to), from, bytes, stream);
}
FAKE cuda::Result cuPointerGetAttribute(void* value, int, cuda::DevicePointer) {
  const unsigned type = cuda::kMemoryTypeDevice;
  std::memcpy(value, &type, sizeof(type));
  return cuda::kSuccess;
}
