// The table of numbers on a communicator: every size, in place and not, in parts, scattered.
#pragma once

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

#include <hvd/hvd.h>

#include "tests/unit/worker/hvd/comm/buffers.h"
#include "tests/unit/worker/hvd/comm/errors.h"
#include "tests/unit/worker/hvd/comm/reduce/number_rules.h"
#include "worker/hvd/comm/adasum.h"
#include "worker/hvd/comm/communicator.h"

namespace hvdrun::test {

inline void check_fault(const std::string& fault, const std::string& where) {
  if (!fault.empty()) throw std::runtime_error(where + ": " + fault);
}

// As one buffer or as several, in place or not, in memory of either kind.
inline void check_numbers_allreduce(const NumberCase& c, Communicator& communicator,
                                    std::size_t count, bool in_place, bool in_parts,
                                    BufferSource* memory) {
  const auto rank = static_cast<std::size_t>(communicator.rank());
  const auto ranks = static_cast<std::size_t>(communicator.size());
  const std::size_t width = element_size(c.reduction.type);
  const std::vector<std::byte> own = number_input(c, rank, ranks, 0, count);
  const Buffer input(own.size(), 0, memory);
  const Buffer output(own.size(), 0, memory);
  std::copy_n(reinterpret_cast<const char*>(own.data()), own.size(), input.data());
  char* const to = in_place ? input.data() : output.data();
  if (in_parts) {
    const std::size_t half = count / 2;
    communicator.grouped_allreduce(
        {{input.data(), to, half}, {input.data() + half * width, to + half * width, count - half}},
        c.reduction, {});
  } else {
    communicator.allreduce(input.data(), to, count, c.reduction, {});
  }
  check_fault(
      number_fault(c, reinterpret_cast<const std::byte*>(to), ranks, 0, count, false),
      std::string("allreduce") + (in_place ? " in place" : "") + (in_parts ? " in parts" : ""));
}

inline void check_numbers_scatter(const NumberCase& c, Communicator& communicator,
                                  std::size_t count, bool in_place) {
  const auto rank = static_cast<std::size_t>(communicator.rank());
  const auto ranks = static_cast<std::size_t>(communicator.size());
  std::vector<std::size_t> counts;
  for (std::size_t r = 0; r < ranks; ++r) counts.push_back(count + r);
  const std::size_t begin = sum_of(counts.data(), rank);
  std::vector<std::byte> data = number_input(c, rank, ranks, 0, sum_of(counts.data(), ranks));
  std::vector<std::byte> output(counts[rank] * element_size(c.reduction.type));
  std::byte* const to = in_place ? data.data() : output.data();
  communicator.reducescatter(data.data(), to, counts.data(), c.reduction, {});
  check_fault(number_fault(c, to, ranks, begin, counts[rank], false), "reducescatter");
}

inline void check_adasum_numbers(Communicator& communicator) {
  const auto rank = static_cast<std::size_t>(communicator.rank());
  const auto ranks = static_cast<std::size_t>(communicator.size());
  if (ranks == 1) return;
  for (const hvd::DataType type : kFloatTypes)
    for (const Number number : {Number::nan, Number::infinity})
      for (const std::size_t count : {std::size_t{5}, std::size_t{40'000}}) {
        std::vector<std::byte> data = adasum_input(type, number, rank, ranks, count);
        adasum(communicator, {{data.data(), data.data(), count}}, {type, hvd::ReduceOp::adasum},
               {});
        expect(all_nan(data.data(), count, type), "adasum: not all of it is NaN");
      }
}

// Sizes of every path: inline, one slot, slices of a chunk, several chunks. The large ones for
// some: a path depends on bytes only.
inline void check_numbers(Communicator& communicator, BufferSource* memory) {
  bool odd = false;
  for (const NumberCase& c : number_cases()) {
    const Reduction& how = c.reduction;
    const std::size_t chunk = (256U << 10) / element_size(how.type);
    std::vector<std::size_t> counts{1, c.rules.size(), 700};
    if (how.prescale == 1 && how.postscale == 1 && is_float(how.type)) {
      counts.push_back(chunk / 3);
      if (how.op == hvd::ReduceOp::min || how.op == hvd::ReduceOp::max) counts.push_back(chunk + 5);
    }
    for (const std::size_t count : counts) {
      odd = !odd;
      check_numbers_allreduce(c, communicator, count, odd, false, nullptr);
      if (count > 700) check_numbers_allreduce(c, communicator, count, !odd, false, memory);
      if (count > chunk) continue;
      check_numbers_allreduce(c, communicator, count, odd, true, nullptr);
      check_numbers_scatter(c, communicator, count, odd);
    }
  }
  check_adasum_numbers(communicator);
}

}  // namespace hvdrun::test
