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
// Collectives. Every rank calls the same operations in the same order, with the same count, type,
// operation and root; a difference is an error on every rank that names both sides. Buffers are
// host memory of `count` elements; input and output may be the same buffer, but must not overlap
// otherwise. Results are the same bits on every rank and in every run with the same size.
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

enum class DataType : std::uint8_t { int32 = 1, int64 = 2, float32 = 3, float64 = 4 };
enum class ReduceOp : std::uint8_t { average = 1, sum = 2 };

// The size of one element in bytes.
HVD_EXPORT std::size_t size_of(DataType type);

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

// Blocking collectives on raw buffers: `count` elements of `type`. An integer average is the sum
// divided by size(), rounded toward zero.
HVD_EXPORT void allreduce(const void* input, void* output, std::size_t count, DataType type,
                          ReduceOp op = ReduceOp::average);
// Overwrites `data` on every rank with the data of rank `root`.
HVD_EXPORT void broadcast(void* data, std::size_t count, DataType type, int root = 0);
// output: size() * count elements, the inputs in rank order.
HVD_EXPORT void allgather(const void* input, void* output, std::size_t count, DataType type);
// Returns when every rank has called it.
HVD_EXPORT void barrier();

// A collective under way. Copyable; the buffers must stay alive until it has finished.
struct Handle {
  std::uint64_t id = 0;
};

HVD_EXPORT Handle allreduce_async(const void* input, void* output, std::size_t count, DataType type,
                                  ReduceOp op = ReduceOp::average);
HVD_EXPORT Handle broadcast_async(void* data, std::size_t count, DataType type, int root = 0);
HVD_EXPORT Handle allgather_async(const void* input, void* output, std::size_t count,
                                  DataType type);
// True when synchronize() would return or throw at once. Throws invalid_argument for a handle that
// synchronize() has consumed already.
HVD_EXPORT bool poll(Handle handle);
// Waits for the operation, throws its error, consumes the handle.
HVD_EXPORT void synchronize(Handle handle);

template <class T>
void allreduce(const T* input, T* output, std::size_t count, ReduceOp op = ReduceOp::average) {
  allreduce(static_cast<const void*>(input), static_cast<void*>(output), count,
            DataTypeOf<T>::value, op);
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
Handle allreduce_async(const T* input, T* output, std::size_t count,
                       ReduceOp op = ReduceOp::average) {
  return allreduce_async(static_cast<const void*>(input), static_cast<void*>(output), count,
                         DataTypeOf<T>::value, op);
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
