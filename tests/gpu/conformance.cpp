#include "tests/gpu/conformance.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "tests/unit/worker/hvd/comm/adasum_reference.h"
#include "worker/hvd/comm/communicator.h"

namespace hvdrun::test {
namespace {

using hvd::DataType;
using hvd::ReduceOp;
using Counts = std::vector<std::size_t>;

constexpr std::array kTypes{DataType::int32,    DataType::int64,  DataType::float32,
                            DataType::float64,  DataType::uint8,  DataType::int8,
                            DataType::uint16,   DataType::int16,  DataType::float16,
                            DataType::bfloat16, DataType::boolean};
constexpr std::array kOps{ReduceOp::average, ReduceOp::sum, ReduceOp::min, ReduceOp::max,
                          ReduceOp::product};

bool has_floats(DataType type) {
  return type == DataType::float32 || type == DataType::float64 || type == DataType::float16 ||
         type == DataType::bfloat16;
}
bool nccl_reduces(DataType type) { return type != DataType::int16 && type != DataType::uint16; }

// Elements 1, 2, 3, 1, ... of a rank; those of a boolean are any byte.
Bytes elements(DataType type, std::size_t count, int rank) {
  const std::size_t width = element_size(type);
  Bytes result(count * width);
  for (std::size_t i = 0; i < count; ++i) {
    const auto value = static_cast<int>((i + static_cast<std::size_t>(rank)) % 3 + 1);
    std::byte* const place = result.data() + i * width;
    const auto put = [&](auto number) { std::memcpy(place, &number, sizeof(number)); };
    switch (type) {
      case DataType::float64:
        put(static_cast<double>(value));
        break;
      case DataType::float32:
        put(static_cast<float>(value));
        break;
      case DataType::float16:
        put(std::array<std::uint16_t, 3>{0x3c00, 0x4000,
                                         0x4200}[static_cast<std::size_t>(value - 1)]);
        break;
      case DataType::bfloat16:
        put(std::array<std::uint16_t, 3>{0x3f80, 0x4000,
                                         0x4040}[static_cast<std::size_t>(value - 1)]);
        break;
      case DataType::boolean:
        put(static_cast<std::uint8_t>(value == 1 ? 0 : value * 7));
        break;
      default: {
        const std::int64_t whole = value;
        std::memcpy(place, &whole, width);
      }
    }
  }
  return result;
}

// As float64, for a comparison within a precision. The CPU's own reduction reads 16-bit floats.
double number_at(const Bytes& data, DataType type, std::size_t i) {
  const std::byte* const place = data.data() + i * element_size(type);
  const auto get = [&](auto number) {
    std::memcpy(&number, place, sizeof(number));
    return number;
  };
  switch (type) {
    case DataType::float64:
      return get(0.0);
    case DataType::float32:
      return static_cast<double>(get(0.0F));
    case DataType::bfloat16: {
      const std::uint32_t bits = std::uint32_t{get(std::uint16_t{})} << 16;
      float value = 0;
      std::memcpy(&value, &bits, sizeof(value));
      return static_cast<double>(value);
    }
    case DataType::float16: {
      const auto bits = get(std::uint16_t{});
      const int exponent = bits >> 10 & 31;
      const double fraction = (bits & 1023) / 1024.0;
      const double value =
          exponent == 0 ? std::ldexp(fraction, -14) : std::ldexp(1 + fraction, exponent - 15);
      return (bits & 0x8000) != 0 ? -value : value;
    }
    default:
      return 0;
  }
}

class Suite {
 public:
  Suite(GpuRank& rank, bool have_kernels, std::size_t largest)
      : rank_(rank),
        have_kernels_(have_kernels),
        largest_(largest),
        size_(rank.communicator.size()),
        own_(rank.communicator.rank()) {}

  int run() {
    for (const DataType type : kTypes)
      for (const std::size_t count : {std::size_t{0}, std::size_t{1}, largest_}) {
        for (const bool in_place : {false, true}) {
          moves(type, count, in_place);
          for (const ReduceOp op : kOps) reductions(type, count, op, in_place);
        }
      }
    scaled();
    if (have_kernels_) adaptive_sums(0.5);
    if (size_ == 1) adaptive_sums(1);
    cases_ += run_gpu_number_rules(rank_, have_kernels_);
    ++cases_;
    rank_.communicator.barrier(rank_.call);
    return cases_;
  }

 private:
  void expect(bool good, const std::string& what) const {
    if (!good) throw std::runtime_error("wrong result: " + what);
  }

  void compare(const Bytes& got, const Bytes& wanted, DataType type, bool exact,
               const std::string& what) {
    ++cases_;
    if (exact || !has_floats(type)) return expect(got == wanted, what);
    const double precision = type == DataType::float64   ? 1e-14
                             : type == DataType::float32 ? 1e-6
                             : type == DataType::float16 ? 2e-3
                                                         : 2e-2;
    expect(got.size() == wanted.size(), what);
    for (std::size_t i = 0; i < got.size() / element_size(type); ++i) {
      const double a = number_at(got, type, i);
      const double b = number_at(wanted, type, i);
      expect(std::abs(a - b) <= precision * std::max(1.0, std::abs(b)),
             what + ", element " + std::to_string(i) + ": " + std::to_string(a) + ", not " +
                 std::to_string(b));
    }
  }

  // One for each rank: the same, or some and none in turn.
  Counts counts(std::size_t count, bool even) const {
    Counts result(static_cast<std::size_t>(size_), count);
    for (std::size_t r = 0; !even && r < result.size(); ++r) result[r] = r % 2 == 0 ? count + r : 0;
    return result;
  }

  std::string words(const char* what, DataType type, std::size_t count, bool in_place) const {
    Descriptor descriptor;
    descriptor.kind = OpKind::broadcast;
    descriptor.type = type;
    descriptor.count = count;
    return std::string(what) + " of " + describe(descriptor) + (in_place ? " in place" : "");
  }

  void moves(DataType type, std::size_t count, bool in_place) {
    const std::size_t width = element_size(type);
    const int root = static_cast<int>(count) % size_;
    {
      const Bytes data = elements(type, count, own_);
      const DeviceBytes memory(rank_.device, data.size());
      rank_.upload(memory, data);
      rank_.communicator.broadcast(memory.get(), count, type, root, rank_.call);
      compare(rank_.download(memory), elements(type, count, root), type, true,
              words("broadcast", type, count, false));
    }
    for (const bool even : {true, false}) gather(type, count, in_place, even, width);
    for (const bool even : {true, false}) exchange(type, count, in_place && even, even, width);
  }

  void gather(DataType type, std::size_t count, bool in_place, bool even, std::size_t width) {
    const Counts all = counts(count, even);
    std::size_t before = 0;
    std::size_t total = 0;
    Bytes wanted;
    for (int r = 0; r < size_; ++r) {
      if (r == own_) before = total;
      const Bytes theirs = elements(type, all[static_cast<std::size_t>(r)], r);
      wanted.insert(wanted.end(), theirs.begin(), theirs.end());
      total += all[static_cast<std::size_t>(r)];
    }
    const Bytes data = elements(type, all[static_cast<std::size_t>(own_)], own_);
    const DeviceBytes output(rank_.device, total * width);
    const DeviceBytes input(rank_.device, data.size());
    if (in_place && !data.empty())
      check_cuda(rank_.device.api(),
                 rank_.device.api().copy_to_device(cuda::device_pointer(output.at(before * width)),
                                                   data.data(), data.size(), rank_.user.get()),
                 "cuMemcpyHtoDAsync");
    else
      rank_.upload(input, data);
    rank_.communicator.allgather(in_place ? output.at(before * width) : input.get(), output.get(),
                                 all.data(), type, rank_.call);
    compare(rank_.download(output), wanted, type, true,
            words(even ? "allgather" : "allgatherv", type, count, in_place));
  }

  void exchange(DataType type, std::size_t count, bool in_place, bool even, std::size_t width) {
    // Rank a sends b this: `count` elements, or a + 2 b of them where they differ.
    const auto sent = [&](int a, int b) {
      return even ? count : count == 0 ? 0 : static_cast<std::size_t>(a + 2 * b);
    };
    Counts send;
    Counts receive;
    Bytes data;
    Bytes wanted;
    for (int r = 0; r < size_; ++r) {
      send.push_back(sent(own_, r));
      receive.push_back(sent(r, own_));
      const Bytes out = elements(type, send.back(), own_ + 2 * r);
      const Bytes in = elements(type, receive.back(), r + 2 * own_);
      data.insert(data.end(), out.begin(), out.end());
      wanted.insert(wanted.end(), in.begin(), in.end());
    }
    const DeviceBytes input(rank_.device, data.size());
    const DeviceBytes output(rank_.device, wanted.size());
    rank_.upload(input, data);
    rank_.communicator.alltoall(input.get(), send.data(), in_place ? input.get() : output.get(),
                                receive.data(), type, rank_.call);
    compare(rank_.download(in_place ? input : output), wanted, type, true,
            words(even ? "alltoall" : "alltoallv", type, count, in_place));
    expect(wanted.size() % width == 0, "width");
  }

  Bytes reduced(const Reduction& reduction, std::size_t count) const {
    std::vector<Bytes> inputs;
    std::vector<const std::byte*> sources;
    for (int r = 0; r < size_; ++r) inputs.push_back(elements(reduction.type, count, r));
    for (const Bytes& input : inputs) sources.push_back(input.data());
    Bytes wanted(count * element_size(reduction.type));
    std::byte* output = wanted.data();
    hvdrun::reduce_buffers(sources.data(), sources.size(), count, reduction, &output, 1);
    return wanted;
  }

  bool possible(const Reduction& reduction) const {
    // One rank alone calls no NCCL.
    if (!nccl_reduces(reduction.type) && size_ > 1) return false;
    const bool extreme = reduction.op == ReduceOp::min || reduction.op == ReduceOp::max;
    if (extreme && has_floats(reduction.type) && size_ > 1) return have_kernels_;
    if (reduction.type == DataType::boolean)
      return have_kernels_ && reduction.op != ReduceOp::average;
    return true;
  }

  void reductions(DataType type, std::size_t count, ReduceOp op, bool in_place) {
    const Reduction reduction{type, op};
    if (!possible(reduction)) return;
    allreduce(reduction, count, in_place);
    scatter(reduction, count, true, in_place);
    scatter(reduction, count, false, in_place);
  }

  void allreduce(const Reduction& reduction, std::size_t count, bool in_place) {
    const Bytes data = elements(reduction.type, count, own_);
    const DeviceBytes input(rank_.device, data.size());
    const DeviceBytes output(rank_.device, data.size());
    rank_.upload(input, data);
    rank_.communicator.allreduce(input.get(), in_place ? input.get() : output.get(), count,
                                 reduction, rank_.call);
    const Bytes got = rank_.download(in_place ? input : output);
    compare(got, reduced(reduction, count), reduction.type, false,
            words("allreduce", reduction.type, count, in_place));
    if (!in_place) expect(rank_.download(input) == data, "allreduce changed its input");
  }

  void scatter(const Reduction& reduction, std::size_t count, bool even, bool in_place) {
    const Counts all = counts(count, even);
    const std::size_t total = sum_of(all.data(), all.size());
    const std::size_t before = sum_of(all.data(), static_cast<std::size_t>(own_));
    const std::size_t width = element_size(reduction.type);
    const Bytes data = elements(reduction.type, total, own_);
    const DeviceBytes input(rank_.device, data.size());
    const DeviceBytes output(rank_.device, all[static_cast<std::size_t>(own_)] * width);
    rank_.upload(input, data);
    rank_.communicator.reducescatter(input.get(), in_place ? input.get() : output.get(), all.data(),
                                     reduction, rank_.call);
    const Bytes whole = reduced(reduction, total);
    const auto begin = whole.begin() + static_cast<std::ptrdiff_t>(before * width);
    Bytes got = rank_.download(in_place ? input : output);
    got.resize(output.size());
    compare(got, Bytes(begin, begin + static_cast<std::ptrdiff_t>(output.size())), reduction.type,
            false,
            words(even ? "reducescatter" : "reducescatterv", reduction.type, count, in_place));
  }

  // Factors before by NCCL where it can, the rest by our kernels.
  void scaled() {
    for (const DataType type : {DataType::float32, DataType::float64, DataType::float16,
                                DataType::bfloat16, DataType::int32, DataType::int64})
      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average, ReduceOp::max}) {
        const bool by_nccl = size_ > 1 && has_floats(type) && op != ReduceOp::max;
        if (by_nccl || have_kernels_) {
          allreduce({type, op, 0.5, 1}, 1000, false);
          scatter({type, op, 2, 1}, 1000, false, false);
        }
        if (have_kernels_) {
          allreduce({type, op, 1, 0.25}, 1000, true);
          allreduce({type, op, 2, 0.5}, 1000, true);
          scatter({type, op, 2, 0.5}, 1000, true, true);
        }
      }
  }

  // Three vectors one behind the other, and one of a single number.
  void adaptive_sums(double factor_in_place) {
    for (const DataType type :
         {DataType::float32, DataType::float64, DataType::float16, DataType::bfloat16})
      for (const bool in_place : {false, true}) {
        const double factor = in_place ? factor_in_place : 1;
        adaptive_sum_of(type, {largest_, 0, 7, largest_ / 2}, factor, in_place);
        adaptive_sum_of(type, {1}, factor, in_place);
      }
  }

  void adaptive_sum_of(DataType type, const Counts& parts, double factor, bool in_place) {
    const std::size_t width = element_size(type);
    const std::size_t total = sum_of(parts.data(), parts.size());
    std::vector<Vector> rows;
    for (int r = 0; r < size_; ++r) {
      const Bytes theirs = elements(type, total, r);
      rows.emplace_back();
      for (std::size_t i = 0; i < total; ++i) rows.back().push_back(number_at(theirs, type, i));
    }
    const Vector wanted = adaptive_sum(rows, parts, factor, factor);
    const Bytes data = elements(type, total, own_);
    const DeviceBytes input(rank_.device, data.size());
    const DeviceBytes output(rank_.device, data.size());
    rank_.upload(input, data);
    std::vector<BufferPart> buffers;
    std::size_t begin = 0;
    for (const std::size_t count : parts) {
      std::byte* const from = input.at(begin * width);
      buffers.push_back({from, in_place ? from : output.at(begin * width), count});
      begin += count;
    }
    rank_.communicator.allreduce(buffers, {type, ReduceOp::adasum, factor, factor}, rank_.call);
    const Bytes got = rank_.download(in_place ? input : output);
    ++cases_;
    const double precision = width == 8                  ? 1e-12
                             : width == 4                ? 1e-6
                             : type == DataType::float16 ? 1e-3
                                                         : 8e-3;
    for (std::size_t i = 0; i < total; ++i) {
      const double value = number_at(got, type, i);
      expect(std::abs(value - wanted[i]) <= precision * std::max(1.0, std::abs(wanted[i])),
             words("adasum", type, total, in_place) + ", element " + std::to_string(i) + ": " +
                 std::to_string(value) + ", not " + std::to_string(wanted[i]));
    }
  }

  GpuRank& rank_;
  bool have_kernels_;
  std::size_t largest_;
  int size_;
  int own_;
  int cases_ = 0;
};

}  // namespace

int run_gpu_conformance(GpuRank& rank, bool have_kernels, std::size_t largest) {
  return Suite(rank, have_kernels, largest).run();
}

}  // namespace hvdrun::test
