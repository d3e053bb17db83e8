// hvd: the worker's side of hvdrun. C++17, no other header needed.
//
//   hvd::init();
//   float loss = 1.0F + hvd::rank();
//   hvd::allreduce(&loss, &loss, 1);          // the mean over all ranks
//   hvd::shutdown();
//
// Terms. A job has `size()` ranks, numbered from 0. `local_rank()` counts the ranks of one host,
// `cross_rank()` the hosts that have this local rank (Horovod's meaning).
//
// Collectives. Every rank calls the same operations in the same order, with the same counts, type,
// operation, scale factors and root; a difference is an error on every rank that names both sides.
// Buffers are host memory, aligned or not; a count is one of elements and may be 0. In place means
// that input and output are the same buffer, but for allgather that the input stands at its own
// place in the output; otherwise they must not overlap. Results are the same bits in every run with
// the same inputs and size.
//
// Errors. Everything below throws hvd::Error. When a rank that is needed dies, or says goodbye,
// every pending and later collective fails within a second with ErrorCode::peer_lost and names it.
//
// Threads. All functions may be called from any thread after init() has returned; concurrent
// collectives run one after the other, in the order in which they were submitted. init() and
// shutdown() must not run at the same time as anything else here.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

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
  // How long init() waits for all ranks to arrive. HVD_INIT_TIMEOUT (seconds) overrides it.
  std::chrono::milliseconds init_timeout{300'000};
  // How long one collective waits for the other ranks. HVD_COLLECTIVE_TIMEOUT (seconds) overrides
  // it.
  std::chrono::milliseconds collective_timeout{1'800'000};
};

// Joins the job of the launcher that started this process; returns when all ranks have. Without a
// launcher this is rank 0 of 1; a line on stderr warns when the environment shows another
// launcher's ranks. A second call without shutdown() between does nothing.
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

enum class DataType : std::uint8_t {
  int32 = 1,
  int64 = 2,
  float32 = 3,
  float64 = 4,
  uint8 = 5,
  int8 = 6,
  uint16 = 7,
  int16 = 8,
  float16 = 9,    // IEEE 754 binary16
  bfloat16 = 10,  // the upper half of a float32
  boolean = 11,   // one byte: 0 is false
};
// float16 and bfloat16 are combined in float32, in the order of the ranks, and rounded once. Sums
// and products of integers wrap. Of a boolean, sum and max are "or", product and min are "and";
// there is no average and no scaling.
enum class ReduceOp : std::uint8_t { average = 1, sum = 2, min = 3, max = 4, product = 5 };

// Every input is multiplied by `prescale`, the result by `postscale`. In float32 (float64 for
// float64 and integers, which are truncated toward zero and limited to what their type holds).
struct ScaleFactors {
  double prescale = 1;
  double postscale = 1;
};

// The bits of 16-bit floating-point numbers, which C++17 has no types for.
struct Float16 {
  std::uint16_t bits = 0;
};
struct BFloat16 {
  std::uint16_t bits = 0;
};

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
// other memory. Zeroed, aligned to a page (4096 bytes). In a job of one rank, and before init(), it
// is ordinary memory; what comes from before an init() is so afterwards. It takes its size in whole
// pages and one page more, counts as this process's, and stays valid after shutdown(). Throws
// Error(unavailable) when there is none left.
HVD_EXPORT void* alloc(std::size_t bytes);
// Not while a collective uses it. Peers give it back with their next large collective. Does nothing
// for nullptr; throws Error(invalid_argument) for what is not from alloc().
HVD_EXPORT void free(void* memory);

// Blocking collectives on raw buffers: `count` elements of `type`. An integer average is the sum
// divided by size(), rounded toward zero.
HVD_EXPORT void allreduce(const void* input, void* output, std::size_t count, DataType type,
                          ReduceOp op = ReduceOp::average, const ScaleFactors& scale = {});
// Overwrites `data` on every rank with the data of rank `root`.
HVD_EXPORT void broadcast(void* data, std::size_t count, DataType type, int root = 0);
// output: size() * count elements, the inputs in rank order.
HVD_EXPORT void allgather(const void* input, void* output, std::size_t count, DataType type);
// Rank r gives counts[r] elements; output: all of them in rank order. `counts` has size() elements
// and is the same everywhere.
HVD_EXPORT void allgatherv(const void* input, void* output, const std::size_t* counts,
                           DataType type);
// input: size() * count elements; output: the `count` reduced ones from rank() * count on.
HVD_EXPORT void reducescatter(const void* input, void* output, std::size_t count, DataType type,
                              ReduceOp op = ReduceOp::average, const ScaleFactors& scale = {});
// The same with counts[r] elements for rank r, in rank order; `counts` is the same everywhere.
HVD_EXPORT void reducescatterv(const void* input, void* output, const std::size_t* counts,
                               DataType type, ReduceOp op = ReduceOp::average,
                               const ScaleFactors& scale = {});
// input: `count` elements for each rank, in rank order; output: `count` elements from each rank.
HVD_EXPORT void alltoall(const void* input, void* output, std::size_t count, DataType type);
// send_counts[r] elements for rank r, receive_counts[r] from rank r; what a rank sends another must
// be what that one expects. Not in place.
HVD_EXPORT void alltoallv(const void* input, const std::size_t* send_counts, void* output,
                          const std::size_t* receive_counts, DataType type);
// Returns when every rank has called it.
HVD_EXPORT void barrier();

// Any bytes, of any length: a configuration, a serialized state. Blocking, a copy at each end; for
// numbers the collectives above are faster.
// The bytes of rank `root`; what the others pass is not looked at.
HVD_EXPORT std::string broadcast_object(const std::string& bytes, int root = 0);
// The bytes of every rank, whose lengths may differ, in rank order.
HVD_EXPORT std::vector<std::string> allgather_object(const std::string& bytes);

// A collective under way. Copyable; the buffers must stay alive until it has finished. Counts are
// copied.
struct Handle {
  std::uint64_t id = 0;
};

HVD_EXPORT Handle allreduce_async(const void* input, void* output, std::size_t count, DataType type,
                                  ReduceOp op = ReduceOp::average, const ScaleFactors& scale = {});
HVD_EXPORT Handle broadcast_async(void* data, std::size_t count, DataType type, int root = 0);
HVD_EXPORT Handle allgather_async(const void* input, void* output, std::size_t count,
                                  DataType type);
HVD_EXPORT Handle allgatherv_async(const void* input, void* output, const std::size_t* counts,
                                   DataType type);
HVD_EXPORT Handle reducescatter_async(const void* input, void* output, std::size_t count,
                                      DataType type, ReduceOp op = ReduceOp::average,
                                      const ScaleFactors& scale = {});
HVD_EXPORT Handle reducescatterv_async(const void* input, void* output, const std::size_t* counts,
                                       DataType type, ReduceOp op = ReduceOp::average,
                                       const ScaleFactors& scale = {});
HVD_EXPORT Handle alltoall_async(const void* input, void* output, std::size_t count, DataType type);
HVD_EXPORT Handle alltoallv_async(const void* input, const std::size_t* send_counts, void* output,
                                  const std::size_t* receive_counts, DataType type);
HVD_EXPORT Handle barrier_async();
// True when synchronize() would return or throw at once. Throws invalid_argument for a handle that
// synchronize() has consumed already.
HVD_EXPORT bool poll(Handle handle);
// poll(), after waiting for at most `limit` until it is true.
HVD_EXPORT bool wait(Handle handle, std::chrono::milliseconds limit);
// Waits for the operation, throws its error, consumes the handle.
HVD_EXPORT void synchronize(Handle handle);

template <class T>
void allreduce(const T* input, T* output, std::size_t count, ReduceOp op = ReduceOp::average,
               const ScaleFactors& scale = {}) {
  allreduce(static_cast<const void*>(input), static_cast<void*>(output), count,
            DataTypeOf<T>::value, op, scale);
}
template <class T>
void broadcast(T* data, std::size_t count, int root = 0) {
  broadcast(static_cast<void*>(data), count, DataTypeOf<T>::value, root);
}
template <class T>
void allgather(const T* input, T* output, std::size_t count) {
  allgather(static_cast<const void*>(input), static_cast<void*>(output), count,
            DataTypeOf<T>::value);
}
template <class T>
void reducescatter(const T* input, T* output, std::size_t count, ReduceOp op = ReduceOp::average,
                   const ScaleFactors& scale = {}) {
  reducescatter(static_cast<const void*>(input), static_cast<void*>(output), count,
                DataTypeOf<T>::value, op, scale);
}
template <class T>
void alltoall(const T* input, T* output, std::size_t count) {
  alltoall(static_cast<const void*>(input), static_cast<void*>(output), count,
           DataTypeOf<T>::value);
}
template <class T>
Handle allreduce_async(const T* input, T* output, std::size_t count,
                       ReduceOp op = ReduceOp::average, const ScaleFactors& scale = {}) {
  return allreduce_async(static_cast<const void*>(input), static_cast<void*>(output), count,
                         DataTypeOf<T>::value, op, scale);
}
template <class T>
Handle broadcast_async(T* data, std::size_t count, int root = 0) {
  return broadcast_async(static_cast<void*>(data), count, DataTypeOf<T>::value, root);
}
template <class T>
Handle allgather_async(const T* input, T* output, std::size_t count) {
  return allgather_async(static_cast<const void*>(input), static_cast<void*>(output), count,
                         DataTypeOf<T>::value);
}

}  // namespace hvd
