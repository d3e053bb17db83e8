// NaN, infinities, -0, subnormals, the ends of integers: the table of <hvd/numbers.h>, which the
// CPU's paths follow as well (tests/unit/worker/hvd/comm/reduce/test_numbers.cpp).
#include <utility>

#include "tests/gpu/conformance.h"
#include "tests/unit/worker/hvd/comm/reduce/number_rules.h"
#include "worker/hvd/comm/communicator.h"

namespace hvdrun::test {
namespace {

using hvd::DataType;
using hvd::ReduceOp;

class NumberSuite {
 public:
  NumberSuite(GpuRank& rank, bool have_kernels)
      : rank_(rank),
        have_kernels_(have_kernels),
        ranks_(static_cast<std::size_t>(rank.communicator.size())),
        own_(static_cast<std::size_t>(rank.communicator.rank())) {}

  int run() {
    bool in_place = false;
    for (const NumberCase& c : number_cases()) {
      if (!possible(c.reduction)) continue;
      in_place = !in_place;
      const std::size_t count = 3 * c.rules.size() + 1;
      allreduce(c, count, in_place);
      scatter(c, count, true, !in_place);
      scatter(c, count, false, in_place);
    }
    for (const DataType type : kFloatTypes)
      for (const Number number : {Number::nan, Number::infinity})
        if (have_kernels_ && ranks_ > 1) adaptive_sum(type, number);
    return cases_;
  }

 private:
  static void expect(bool good, const std::string& what) {
    if (!good) throw std::runtime_error("wrong result: " + what);
  }

  bool possible(const Reduction& reduction) const {
    // One rank alone calls no NCCL.
    const bool whole_16 = reduction.type == DataType::int16 || reduction.type == DataType::uint16;
    if (whole_16 && ranks_ > 1) return false;
    const bool extreme = reduction.op == ReduceOp::min || reduction.op == ReduceOp::max;
    const bool needs_kernels = reduction.prescale != 1 || reduction.postscale != 1 ||
                               reduction.type == DataType::boolean ||
                               (extreme && is_float(reduction.type) && ranks_ > 1);
    return have_kernels_ || !needs_kernels;
  }

  // Three buffers as one operation.
  void allreduce(const NumberCase& c, std::size_t count, bool in_place) {
    ++cases_;
    const std::size_t width = element_size(c.reduction.type);
    const Bytes data = number_input(c, own_, ranks_, 0, count);
    const DeviceBytes input(rank_.device, data.size());
    const DeviceBytes output(rank_.device, data.size());
    const DeviceBytes& target = in_place ? input : output;
    rank_.upload(input, data);
    std::vector<BufferPart> parts;
    std::size_t begin = 0;
    for (const std::size_t size : {count / 3, std::size_t{0}, count - count / 3}) {
      parts.push_back({input.at(begin * width), target.at(begin * width), size});
      begin += size;
    }
    rank_.communicator.allreduce(parts, c.reduction, rank_.call);
    const Bytes got = rank_.download(target);
    const std::string fault = number_fault(c, got.data(), ranks_, 0, count, true);
    expect(fault.empty(), fault);
    if (!in_place) expect(rank_.download(input) == data, "allreduce changed its input");
  }

  void scatter(const NumberCase& c, std::size_t count, bool even, bool in_place) {
    ++cases_;
    std::vector<std::size_t> all(ranks_, count);
    for (std::size_t r = 0; !even && r < ranks_; ++r) all[r] = r % 2 == 0 ? count + r : 0;
    const std::size_t before = sum_of(all.data(), own_);
    const Bytes data = number_input(c, own_, ranks_, 0, sum_of(all.data(), ranks_));
    const DeviceBytes input(rank_.device, data.size());
    const DeviceBytes output(rank_.device, all[own_] * element_size(c.reduction.type));
    rank_.upload(input, data);
    rank_.communicator.reducescatter(input.get(), in_place ? input.get() : output.get(), all.data(),
                                     c.reduction, rank_.call);
    const Bytes got = rank_.download(in_place ? input : output);
    const std::string fault = number_fault(c, got.data(), ranks_, before, all[own_], true);
    expect(fault.empty(), "reducescatter, " + fault);
    if (!in_place) expect(rank_.download(input) == data, "reducescatter changed its input");
  }

  void adaptive_sum(DataType type, Number number) {
    ++cases_;
    constexpr std::size_t kCount = 100;
    const Bytes data = adasum_input(type, number, own_, ranks_, kCount);
    const DeviceBytes memory(rank_.device, data.size());
    rank_.upload(memory, data);
    rank_.communicator.allreduce(memory.get(), memory.get(), kCount, {type, ReduceOp::adasum},
                                 rank_.call);
    expect(all_nan(rank_.download(memory).data(), kCount, type), "adasum of what is no number");
  }

  GpuRank& rank_;
  bool have_kernels_;
  std::size_t ranks_;
  std::size_t own_;
  int cases_ = 0;
};

}  // namespace

int run_gpu_number_rules(GpuRank& rank, bool have_kernels) {
  return NumberSuite(rank, have_kernels).run();
}

}  // namespace hvdrun::test
