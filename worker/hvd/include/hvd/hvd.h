// hvd: the worker's side of hvdrun. C++17, no other header needed.
//
// <hvd/numbers.h>, a part of this one, has the types of elements and the reductions. Its table
// tells what comes of NaN, infinities, -0, subnormals and the ends of integers.
//
//   hvd::init();
//   float loss = 1.0F + hvd::rank();
//   hvd::allreduce(&loss, &loss, 1);          // the mean over all ranks
//   hvd::shutdown();
//
// Terms. A job has `size()` ranks, numbered from 0. `local_rank()` counts the ranks of one host,
// `cross_rank()` the hosts that have this local rank (Horovod's meaning).
//
// Collectives. Every rank calls the same operations, with the same counts, type, operation, scale
// factors and root. A difference is an error on every rank that names both sides, and changes
// nothing else. Ranks find each other's operations by their name (OperationOptions), in whatever
// order each of them submits them. Those without a name match in the order of their submission.
// Buffers are host memory (or a GPU's, see below), aligned or not; a count is one of elements and
// may be 0. In place means that input and output are the same buffer. For allgather it means that
// the input stands at its own place in the output. Otherwise they must not overlap. Results are the
// same bits in every run with the same inputs and size.
//
// GPUs. With OperationOptions::device the buffers are memory of this rank's GPU, and no host waits
// for it. An operation begins after what was on its `stream` as it was submitted. Work that is put
// on that stream after a blocking call or synchronize() has returned runs after it. Both return as
// soon as the operation has been queued on this rank's GPU; poll() and wait() tell whether the GPU
// has ended it. The buffers, and after an _async call the stream, must live until then, or after an
// error until shutdown(). NCCL moves the bytes; the first such operation loads it, or on rank 0
// init(). 16-bit integers in a reduction are Error(invalid_argument). Without our kernels adasum,
// scale factors, and min and max of floating-point numbers are Error(unavailable). One rank alone
// needs no NCCL, and kernels for factors and booleans only.
//
// CUDA graphs. An operation whose `stream` is being captured becomes part of the graph, on all
// ranks or, as a mismatch, on none. It must be waited for (a blocking call, synchronize()) before
// the capture ends. Then it runs whenever the graph does, without a host that looks. The ranks
// launch their graphs as often and in the same order. Nothing has a deadline, and poll() and wait()
// say at once that it has ended. Error(invalid_argument) before the process set's first operation
// on GPU memory, which makes the communicator, and while a rank has joined.
//
// Errors. Everything below throws hvd::Error. When a rank that is needed dies, or says goodbye,
// every pending and later collective fails within a second with ErrorCode::peer_lost and names it.
//
// Threads. All functions may be called from any thread after init() has returned; the collectives
// of a process set run one after the other. init() and shutdown() must not run at the same time as
// anything else here.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include <hvd/numbers.h>

#define HVD_EXPORT __attribute__((visibility("default")))

namespace hvd {

enum class ErrorCode {
  not_initialized,   // a function was called before init() or after shutdown()
  invalid_argument,  // this rank's own arguments are wrong
  mismatch,          // the ranks called different operations
  peer_lost,         // a rank that is needed is gone
  timeout,           // a deadline passed
  unavailable,       // the launcher or a part of the machine is missing
  internal,
};

class HVD_EXPORT Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& what) : std::runtime_error(what), code_(code) {}
  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

struct InitOptions {
  // The time that init() waits for all ranks to arrive. HVD_INIT_TIMEOUT (seconds) overrides it.
  std::chrono::milliseconds init_timeout{300'000};
  // The time that one collective waits for the other ranks. HVD_COLLECTIVE_TIMEOUT (seconds)
  // overrides it.
  std::chrono::milliseconds collective_timeout{1'800'000};
  // As by add_process_set(), in this order, right after all ranks have arrived.
  struct Set {
    std::string name;
    std::vector<int> ranks;
  };
  std::vector<Set> process_sets{};
};

// Joins the job of the launcher that started this process; returns when all ranks have. Without a
// launcher this is rank 0 of 1; a line on stderr warns when the environment shows another
// launcher's ranks. A second call without shutdown() between does nothing. One that throws while
// ranks meet has failed for all of them, and each later one throws Error(unavailable); one that
// throws once all have met, for the process sets say, may be repeated by all.
HVD_EXPORT void init(const InitOptions& options = {});

// Finishes what was submitted and leaves the job. The other ranks' later collectives fail. May be
// followed by another init(), if all ranks do so. Does nothing when not initialized. Never throws.
HVD_EXPORT void shutdown() noexcept;

HVD_EXPORT bool is_initialized() noexcept;

// Throw Error(not_initialized) outside init() .. shutdown().
HVD_EXPORT int rank();
HVD_EXPORT int size();
HVD_EXPORT int local_rank();
HVD_EXPORT int local_size();
HVD_EXPORT int cross_rank();
HVD_EXPORT int cross_size();
// Every host has as many ranks as the others.
HVD_EXPORT bool is_homogeneous();
// The GPU that this rank computes on, as a number among those that CUDA shows it: the one of its
// local rank, whose primary context init() has made the current one of its thread. -1 on a CPU.
HVD_EXPORT int gpu();
// The version of the NCCL that the first operation on GPU memory loads: 22809 for 2.28.9. 0 where
// there is none that it could use. Loads it; may be called at any time.
HVD_EXPORT int nccl_version();

// Ranks that call operations among themselves (OperationOptions). The default is all of the job.
struct ProcessSet {
  int id = 0;
};
// Called by all ranks of the job, in the same order, with the same ranks and name; returns when all
// of them have. `ranks` are of the job, each once, in any order: in the set they are sorted. Throws
// Error(invalid_argument) for ranks that there are not, a name in use, or the ranks of another set;
// Error(mismatch) on every rank when they differ, and on the others when they are wrong on one.
HVD_EXPORT ProcessSet add_process_set(const std::vector<int>& ranks, const std::string& name = {});
// Likewise, when nothing is under way in it. Not the global one.
HVD_EXPORT void remove_process_set(const ProcessSet& set);
// Throws Error(invalid_argument) when there is none of this name.
HVD_EXPORT ProcessSet process_set(const std::string& name);
// All that there are, the global one first, then in the order of their making.
HVD_EXPORT std::vector<ProcessSet> process_sets();
// Empty without one.
HVD_EXPORT std::string process_set_name(const ProcessSet& set);
// Its ranks in the job, sorted.
HVD_EXPORT std::vector<int> process_set_ranks(const ProcessSet& set);
// This rank's place in the set; -1 when it is not in it.
HVD_EXPORT int process_set_rank(const ProcessSet& set);

// Since init(), of the global process set.
struct Statistics {
  std::uint64_t operations = 0;  // that have run
  std::uint64_t batches = 0;     // that they were: several small ones run as one
  // Times that ranks had to tell each other what they had submitted; none while a program repeats
  // itself.
  std::uint64_t negotiations = 0;
};
HVD_EXPORT Statistics statistics();

// Called by all ranks: from here on hvdrun writes what each rank's operations do into the file that
// rank 0 names. The format is Chrome's for traces (docs/timeline.md). The file is on the machine
// where hvdrun runs and named from its folder. The user allows it by --timeline-filename DYNAMIC.
// Throws Error(unavailable) without hvdrun, Error(invalid_argument) when it is not allowed, or on
// already.
HVD_EXPORT void start_timeline(const std::string& path, bool mark_cycles = false);
// Likewise. Does nothing when it is off.
HVD_EXPORT void stop_timeline();
// True: events are recorded now; false outside init() .. shutdown().
HVD_EXPORT bool timeline_is_on() noexcept;
// Activities of the program itself, in the timeline of this rank: DATA, FORWARD and so on, on the
// thread called `lane`. DistributedOptimizer tells the last three itself.
enum class Activity : std::uint8_t {
  data = 1,
  forward = 2,
  backward = 3,
  synchronize = 4,  // waiting for the gradients that are still under way
  step = 5,
};
// Those of one lane stand inside each other or follow each other. They do nothing while the
// timeline is off, nor outside init() .. shutdown().
HVD_EXPORT void timeline_begin(const std::string& lane, Activity activity) noexcept;
HVD_EXPORT void timeline_end(const std::string& lane, Activity activity) noexcept;

namespace detail {
// 0 for a type that there is not.
constexpr std::size_t element_size(DataType type) noexcept {
  switch (type) {
    case DataType::uint8:
    case DataType::int8:
    case DataType::boolean:
      return 1;
    case DataType::uint16:
    case DataType::int16:
    case DataType::float16:
    case DataType::bfloat16:
      return 2;
    case DataType::int32:
    case DataType::float32:
      return 4;
    case DataType::int64:
    case DataType::float64:
      return 8;
  }
  return 0;
}
}  // namespace detail

// The size of one element in bytes. Throws Error(invalid_argument) for a type that there is not.
inline std::size_t size_of(DataType type) {
  if (const std::size_t size = detail::element_size(type)) return size;
  throw Error(ErrorCode::invalid_argument,
              "unknown data type " + std::to_string(static_cast<unsigned>(type)));
}

template <class T>
struct DataTypeOf;
template <>
struct DataTypeOf<std::int32_t> {
  static constexpr DataType value = DataType::int32;
};
template <>
struct DataTypeOf<std::int64_t> {
  static constexpr DataType value = DataType::int64;
};
template <>
struct DataTypeOf<float> {
  static constexpr DataType value = DataType::float32;
};
template <>
struct DataTypeOf<double> {
  static constexpr DataType value = DataType::float64;
};
template <>
struct DataTypeOf<std::uint8_t> {
  static constexpr DataType value = DataType::uint8;
};
template <>
struct DataTypeOf<std::int8_t> {
  static constexpr DataType value = DataType::int8;
};
template <>
struct DataTypeOf<std::uint16_t> {
  static constexpr DataType value = DataType::uint16;
};
template <>
struct DataTypeOf<std::int16_t> {
  static constexpr DataType value = DataType::int16;
};
template <>
struct DataTypeOf<Float16> {
  static constexpr DataType value = DataType::float16;
};
template <>
struct DataTypeOf<BFloat16> {
  static constexpr DataType value = DataType::bfloat16;
};
template <>
struct DataTypeOf<bool> {
  static constexpr DataType value = DataType::boolean;
};

// Memory that the other ranks of this host read and write where it is: large collectives on it need
// no copy, if the buffers of all ranks are such memory (allreduce: input and output; allgather,
// reducescatter, alltoall: input; broadcast: the root's). Results are the same bits as with any
// other memory. Zeroed, aligned to a page (4096 bytes). Before init(), and for a rank that is alone
// on its host, it is ordinary memory; what comes from before an init() is so afterwards. It takes
// its size in whole pages and one page more, counts as this process's, and stays valid after
// shutdown(). Throws Error(unavailable) when there is none left.
HVD_EXPORT void* alloc(std::size_t bytes);
// Not while a collective uses it. Peers give it back with their next large collective. Does nothing
// for nullptr; throws Error(invalid_argument) for what is not from alloc().
HVD_EXPORT void free(void* memory);

// Where the buffers of an operation are.
enum class Device : std::uint8_t {
  cpu = 0,
  gpu = 1,  // memory of the GPU gpu(), all of them
};

// No size: what separates the shapes of a group (OperationOptions::shape).
inline constexpr std::int64_t kNextShape = -1;

// Further words on an operation.
struct OperationOptions {
  // The same on all ranks. One operation of a name may be under way at a time; else
  // Error(invalid_argument).
  std::string name{};
  // Where it runs; counts, lists of counts and outputs are for its ranks, in their order. A root is
  // a rank of the job. Throws Error(invalid_argument) on a rank that is not in it.
  ProcessSet process_set{};
  // The tensor's, if ranks are to agree on it. A group's tensors have theirs one behind the other,
  // with kNextShape between.
  std::vector<std::int64_t> shape{};
  // The call's name in errors, in place of the operation as it runs: for functions that are made of
  // several. Not compared.
  std::string description{};
  // For an allgatherv or a reducescatterv that gets other counts in every call. They are compared
  // as it runs, and not part of what ranks repeat. So a program that does the same with other
  // counts negotiates nothing. The same on all ranks.
  bool varying_counts = false;
  // The same on all ranks; a barrier has none. Error(unavailable) where this rank has no GPU.
  Device device = Device::cpu;
  // With Device::gpu: the cudaStream_t or CUstream (null: the default one) that the buffers are
  // used on. See "GPUs" above.
  void* stream = nullptr;
};

// Blocking collectives on raw buffers: `count` elements of `type`.
HVD_EXPORT void allreduce(const void* input, void* output, std::size_t count, DataType type,
                          ReduceOp op = ReduceOp::average, const ScaleFactors& scale = {},
                          const OperationOptions& options = {});
// Overwrites `data` on every rank with the data of rank `root`.
HVD_EXPORT void broadcast(void* data, std::size_t count, DataType type, int root = 0,
                          const OperationOptions& options = {});
// output: size() * count elements, the inputs in rank order.
HVD_EXPORT void allgather(const void* input, void* output, std::size_t count, DataType type,
                          const OperationOptions& options = {});
// Rank r gives counts[r] elements; output: all of them in rank order. `counts` has size() elements
// and is the same everywhere.
HVD_EXPORT void allgatherv(const void* input, void* output, const std::size_t* counts,
                           DataType type, const OperationOptions& options = {});
// input: size() * count elements; output: the `count` reduced ones from rank() * count on.
HVD_EXPORT void reducescatter(const void* input, void* output, std::size_t count, DataType type,
                              ReduceOp op = ReduceOp::average, const ScaleFactors& scale = {},
                              const OperationOptions& options = {});
// The same with counts[r] elements for rank r, in rank order; `counts` is the same everywhere.
HVD_EXPORT void reducescatterv(const void* input, void* output, const std::size_t* counts,
                               DataType type, ReduceOp op = ReduceOp::average,
                               const ScaleFactors& scale = {},
                               const OperationOptions& options = {});
// input: `count` elements for each rank, in rank order; output: `count` elements from each rank.
HVD_EXPORT void alltoall(const void* input, void* output, std::size_t count, DataType type,
                         const OperationOptions& options = {});
// send_counts[r] elements for rank r, receive_counts[r] from rank r. A rank must expect what
// another one sends it. Else it is an Error(mismatch) on every rank, and nothing runs in this
// process set any more. Not in place.
HVD_EXPORT void alltoallv(const void* input, const std::size_t* send_counts, void* output,
                          const std::size_t* receive_counts, DataType type,
                          const OperationOptions& options = {});
// Many buffers as one operation: none of them runs before all ranks have submitted all of them.
struct Buffer {
  const void* input;
  void* output;
  std::size_t count;
};
HVD_EXPORT void grouped_allreduce(const std::vector<Buffer>& buffers, DataType type,
                                  ReduceOp op = ReduceOp::average, const ScaleFactors& scale = {},
                                  const OperationOptions& options = {});
// Returns when every rank has called it.
HVD_EXPORT void barrier(const OperationOptions& options = {});

// Any bytes, of any length: a configuration, a serialized state. Blocking, a copy at each end; for
// numbers the collectives above are faster.
// The bytes of rank `root`; what the others pass is not looked at.
HVD_EXPORT std::string broadcast_object(const std::string& bytes, int root = 0,
                                        const OperationOptions& options = {});
// The bytes of every rank, whose lengths may differ, in rank order.
HVD_EXPORT std::vector<std::string> allgather_object(const std::string& bytes,
                                                     const OperationOptions& options = {});

// For ranks whose numbers of batches differ. This one has no more of its own. It takes part in
// whatever the others still call, with elements that change nothing, until all ranks have called
// join(). Returns the rank that did so last. An average is still divided by size(); an allgather
// gets zeros from here, an alltoall as well. An operation that needs more than that (a broadcast
// whose root has joined, say) is an Error(invalid_argument) on the ranks that called it. Of the
// global process set only.
HVD_EXPORT int join();

// A collective under way. Copyable; the buffers must stay alive until it has finished. Counts are
// copied.
struct Handle {
  std::uint64_t id = 0;
  int process_set = 0;
};

HVD_EXPORT Handle allreduce_async(const void* input, void* output, std::size_t count, DataType type,
                                  ReduceOp op = ReduceOp::average, const ScaleFactors& scale = {},
                                  const OperationOptions& options = {});
HVD_EXPORT Handle broadcast_async(void* data, std::size_t count, DataType type, int root = 0,
                                  const OperationOptions& options = {});
HVD_EXPORT Handle allgather_async(const void* input, void* output, std::size_t count, DataType type,
                                  const OperationOptions& options = {});
HVD_EXPORT Handle allgatherv_async(const void* input, void* output, const std::size_t* counts,
                                   DataType type, const OperationOptions& options = {});
HVD_EXPORT Handle reducescatter_async(const void* input, void* output, std::size_t count,
                                      DataType type, ReduceOp op = ReduceOp::average,
                                      const ScaleFactors& scale = {},
                                      const OperationOptions& options = {});
HVD_EXPORT Handle reducescatterv_async(const void* input, void* output, const std::size_t* counts,
                                       DataType type, ReduceOp op = ReduceOp::average,
                                       const ScaleFactors& scale = {},
                                       const OperationOptions& options = {});
HVD_EXPORT Handle alltoall_async(const void* input, void* output, std::size_t count, DataType type,
                                 const OperationOptions& options = {});
HVD_EXPORT Handle alltoallv_async(const void* input, const std::size_t* send_counts, void* output,
                                  const std::size_t* receive_counts, DataType type,
                                  const OperationOptions& options = {});
HVD_EXPORT Handle grouped_allreduce_async(const std::vector<Buffer>& buffers, DataType type,
                                          ReduceOp op = ReduceOp::average,
                                          const ScaleFactors& scale = {},
                                          const OperationOptions& options = {});
HVD_EXPORT Handle barrier_async(const OperationOptions& options = {});
// True when synchronize() would return or throw at once. Throws invalid_argument for a handle that
// synchronize() has consumed already.
HVD_EXPORT bool poll(Handle handle);
// poll(), after waiting for at most `limit` until it is true.
HVD_EXPORT bool wait(Handle handle, std::chrono::milliseconds limit);
// Waits for the operation, throws its error, consumes the handle.
HVD_EXPORT void synchronize(Handle handle);
// Calls `body` once when the operation has ended (on a GPU: has been queued), well or not; the
// thread is libhvd's or that of any call which waits, and this one where it has ended already.
// `body` may submit operations with names and synchronize() this one, must not wait for others and
// must not throw. One for each handle, before synchronize().
HVD_EXPORT void then(Handle handle, std::function<void()> body);

template <class T>
void allreduce(const T* input, T* output, std::size_t count, ReduceOp op = ReduceOp::average,
               const ScaleFactors& scale = {}, const OperationOptions& options = {}) {
  allreduce(static_cast<const void*>(input), static_cast<void*>(output), count,
            DataTypeOf<T>::value, op, scale, options);
}
template <class T>
void broadcast(T* data, std::size_t count, int root = 0, const OperationOptions& options = {}) {
  broadcast(static_cast<void*>(data), count, DataTypeOf<T>::value, root, options);
}
template <class T>
void allgather(const T* input, T* output, std::size_t count, const OperationOptions& options = {}) {
  allgather(static_cast<const void*>(input), static_cast<void*>(output), count,
            DataTypeOf<T>::value, options);
}
template <class T>
void reducescatter(const T* input, T* output, std::size_t count, ReduceOp op = ReduceOp::average,
                   const ScaleFactors& scale = {}, const OperationOptions& options = {}) {
  reducescatter(static_cast<const void*>(input), static_cast<void*>(output), count,
                DataTypeOf<T>::value, op, scale, options);
}
template <class T>
void alltoall(const T* input, T* output, std::size_t count, const OperationOptions& options = {}) {
  alltoall(static_cast<const void*>(input), static_cast<void*>(output), count, DataTypeOf<T>::value,
           options);
}
template <class T>
Handle allreduce_async(const T* input, T* output, std::size_t count,
                       ReduceOp op = ReduceOp::average, const ScaleFactors& scale = {},
                       const OperationOptions& options = {}) {
  return allreduce_async(static_cast<const void*>(input), static_cast<void*>(output), count,
                         DataTypeOf<T>::value, op, scale, options);
}
template <class T>
Handle broadcast_async(T* data, std::size_t count, int root = 0,
                       const OperationOptions& options = {}) {
  return broadcast_async(static_cast<void*>(data), count, DataTypeOf<T>::value, root, options);
}
template <class T>
Handle allgather_async(const T* input, T* output, std::size_t count,
                       const OperationOptions& options = {}) {
  return allgather_async(static_cast<const void*>(input), static_cast<void*>(output), count,
                         DataTypeOf<T>::value, options);
}

}  // namespace hvd
