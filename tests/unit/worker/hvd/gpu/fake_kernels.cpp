// Our kernels, on the fake driver's streams.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include <hvd/hvd.h>

#include "tests/unit/worker/hvd/gpu/fake_arithmetic.h"
#include "tests/unit/worker/hvd/gpu/fake_gpu.h"
#include "tests/unit/worker/hvd/gpu/fake_stream.h"
#include "worker/hvd/comm/reduce/reduce.h"
#include "worker/hvd/gpu/kernels_abi.h"

namespace hvdrun::test {
namespace {

// As the CPU's reduction rounds: one number at a time, between float64 and a type of the stream's.
std::vector<double> numbers(const void* data, std::size_t count, int type) {
  std::vector<double> result(count);
  for (std::size_t i = 0; i < count; ++i)
    result[i] = decode(
        static_cast<const std::byte*>(data) + i * hvd::size_of(static_cast<hvd::DataType>(type)),
        nccl_type(type));
  return result;
}
// `value` is a float32: its bits are rounded to the 16-bit type by the CPU's own sum of one.
void put_number(void* data, std::size_t i, int type, double value) {
  const auto as = static_cast<hvd::DataType>(type);
  auto* const place = static_cast<std::byte*>(data) + i * hvd::size_of(as);
  const auto put = [&](auto number) { std::memcpy(place, &number, sizeof(number)); };
  if (as == hvd::DataType::float64) return put(value);
  if (as == hvd::DataType::float32) return put(static_cast<float>(value));
  const auto accumulator = static_cast<float>(value);
  std::byte* output = place;
  reduce_buffers(nullptr, 0, 1, {as, hvd::ReduceOp::sum, 1, 1}, &output, 1,
                 {.prefix = reinterpret_cast<const std::byte*>(&accumulator), .ranks = 1});
}

int convert(const void* input, int from, void* output, int to, std::size_t count, void* stream) {
  fake_stream(stream).push([=] {
    const std::vector<double> values = numbers(input, count, from);
    for (std::size_t i = 0; i < count; ++i) put_number(output, i, to, values[i]);
  });
  return 0;
}

double times(double value, double factor, int type) {
  if (type == static_cast<int>(hvd::DataType::float64)) return value * factor;
  return static_cast<double>(static_cast<float>(value) * static_cast<float>(factor));
}

// For a key or a number's bits.
template <class Key>
Key turned(Key bits) {
  return bits < 0 ? bits ^ std::numeric_limits<Key>::max() : bits;
}

template <class Number, class Key>
void order(const std::vector<double>& values, void* keys, bool nan_is_largest) {
  using Limits = std::numeric_limits<Key>;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto value = static_cast<Number>(values[i]);
    Key key;
    std::memcpy(&key, &value, sizeof key);
    key = std::isnan(value) ? (nan_is_largest ? Limits::max() : Limits::min()) : turned(key);
    std::memcpy(static_cast<Key*>(keys) + i, &key, sizeof key);
  }
}

template <class Number, class Key>
std::vector<double> restored(const void* keys, std::size_t count) {
  std::vector<double> values;
  for (std::size_t i = 0; i < count; ++i) {
    Key key;
    std::memcpy(&key, static_cast<const Key*>(keys) + i, sizeof key);
    key = turned(key);
    Number value;
    std::memcpy(&value, &key, sizeof value);
    values.push_back(static_cast<double>(value));
  }
  return values;
}

double coefficient(double both, double squared_norm) {
  return squared_norm < std::numeric_limits<double>::min() ? 1 : 1 - both / squared_norm / 2;
}

}  // namespace
}  // namespace hvdrun::test

using namespace hvdrun;
using namespace hvdrun::test;

#define FAKE extern "C" __attribute__((visibility("default")))

FAKE int hvd_cuda_abi_version() { return HVD_CUDA_ABI_VERSION; }
FAKE const char* hvd_cuda_error_text(int) { return "a fault of the fake"; }
FAKE std::size_t hvd_cuda_adasum_scratch() { return 3; }
FAKE int hvd_cuda_scale(const void* input, void* output, std::size_t count, int type, double first,
                        double second, void* stream) {
  fake_gpu()->log("scale on " + name_of(stream));
  fake_stream(stream).push([=] {
    const auto* source = static_cast<const std::byte*>(input);
    auto* target = static_cast<std::byte*>(output);
    reduce_buffers(&source, 1, count,
                   {static_cast<hvd::DataType>(type), hvd::ReduceOp::sum, first, second}, &target,
                   1);
  });
  return 0;
}

FAKE int hvd_cuda_normalise_boolean(void* data, std::size_t count, void* stream) {
  fake_stream(stream).push([=] {
    auto* bytes = static_cast<std::uint8_t*>(data);
    std::transform(bytes, bytes + count, bytes, [](std::uint8_t x) { return x != 0; });
  });
  return 0;
}

FAKE int hvd_cuda_order(const void* input, void* keys, std::size_t count, int type, double factor,
                        int nan_is_largest, void* stream) {
  fake_gpu()->log("order on " + name_of(stream));
  fake_stream(stream).push([=] {
    std::vector<double> values = numbers(input, count, type);
    for (double& value : values) value = times(value, factor, type);
    if (type == static_cast<int>(hvd::DataType::float64))
      order<double, std::int64_t>(values, keys, nan_is_largest != 0);
    else
      order<float, std::int32_t>(values, keys, nan_is_largest != 0);
  });
  return 0;
}

FAKE int hvd_cuda_restore(const void* keys, void* output, std::size_t count, int type,
                          double factor, void* stream) {
  fake_gpu()->log("restore on " + name_of(stream));
  fake_stream(stream).push([=] {
    const std::vector<double> values = type == static_cast<int>(hvd::DataType::float64)
                                           ? restored<double, std::int64_t>(keys, count)
                                           : restored<float, std::int32_t>(keys, count);
    for (std::size_t i = 0; i < count; ++i)
      put_number(output, i, type, times(values[i], factor, type));
  });
  return 0;
}

FAKE int hvd_cuda_compress(const void* input, void* output, std::size_t count, int type,
                           void* stream) {
  return convert(input, static_cast<int>(hvd::DataType::float32), output, type, count, stream);
}
FAKE int hvd_cuda_decompress(const void* input, void* output, std::size_t count, int type,
                             void* stream) {
  return convert(input, type, output, static_cast<int>(hvd::DataType::float32), count, stream);
}
FAKE int hvd_cuda_adasum_dots(const void* a, const void* b, std::size_t count, int type,
                              double* scratch, void* stream) {
  fake_stream(stream).push([=] {
    const std::vector<double> x = numbers(a, count, type);
    const std::vector<double> y = numbers(b, count, type);
    scratch[0] = std::inner_product(x.begin(), x.end(), y.begin(), 0.0);
    scratch[1] = std::inner_product(x.begin(), x.end(), x.begin(), 0.0);
    scratch[2] = std::inner_product(y.begin(), y.end(), y.begin(), 0.0);
  });
  return 0;
}

FAKE int hvd_cuda_adasum_combine(const void* a, const void* b, void* output, std::size_t count,
                                 int type, const double* dots, void* stream) {
  fake_stream(stream).push([=] {
    const double of_a = coefficient(dots[0], dots[1]);
    const double of_b = coefficient(dots[0], dots[2]);
    const std::vector<double> x = numbers(a, count, type);
    const std::vector<double> y = numbers(b, count, type);
    for (std::size_t i = 0; i < count; ++i) put_number(output, i, type, of_a * x[i] + of_b * y[i]);
  });
  return 0;
}
