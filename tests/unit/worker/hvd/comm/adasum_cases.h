// Adaptive sums as tests run them on one rank.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "tests/unit/worker/hvd/comm/adasum_reference.h"
#include "tests/unit/worker/hvd/comm/buffers.h"
#include "tests/unit/worker/hvd/comm/errors.h"
#include "tests/unit/worker/hvd/comm/reference_types.h"
#include "worker/hvd/comm/adasum.h"

namespace hvdrun::test {

struct AdasumCase {
  Reduction reduction{hvd::DataType::float32, hvd::ReduceOp::adasum};
  std::vector<std::size_t> parts;
  bool in_place = false;
  bool shared = false;       // the memory
  bool scattered = false;    // tensors do not follow each other in memory
  std::size_t misalign = 0;  // bytes before the buffers
  std::uint64_t round = 0;   // the data are different each time
};

inline const std::vector<hvd::DataType> kAdasumTypes{
    hvd::DataType::float16, hvd::DataType::bfloat16, hvd::DataType::float32,
    hvd::DataType::float64};

inline std::string name_of(const AdasumCase& c) {
  std::string parts;
  for (std::size_t i = 0; i < std::min<std::size_t>(c.parts.size(), 10); ++i)
    parts += " " + std::to_string(c.parts[i]);
  return "adasum of type " + std::to_string(static_cast<int>(c.reduction.type)) + ", round " +
         std::to_string(c.round) + (c.in_place ? " in place" : "") +
         (c.scattered ? " scattered" : "") + ", " + std::to_string(c.parts.size()) + " parts" +
         parts;
}

// Half of what two ranks have is the same, as gradients are alike; tensors differ in size by orders
// of magnitude, and now and then a rank's is zero. Few elements are positive: where vectors cancel
// each other but for a rounding, any result is as good, since that of a zero vector is no limit.
template <class T>
std::vector<T> adasum_input(const AdasumCase& c, std::size_t rank) {
  std::vector<T> row;
  for (std::size_t part = 0; part < c.parts.size(); ++part) {
    const std::uint64_t bits = mix(c.round * 7919 + part * 31 + rank);
    const double size = bits % 7 == 0 ? 0 : std::ldexp(1.0, static_cast<int>(part % 5));
    for (std::size_t i = 0; i < c.parts[part]; ++i) {
      const double own = widen(value_of<T>(c.round + 1, rank, row.size()));
      const double common = widen(value_of<T>(c.round + 2, 1000, row.size()));
      const double value = size * (own + common) / 64;
      row.push_back(narrow<T>(static_cast<Wide<T>>(c.parts[part] <= 3 ? std::fabs(value) : value)));
    }
  }
  return row;
}

// The distance of element i's result from the reference, when the largest element of its tensor on
// any rank is `largest`: few roundings of what is combined, and one to the type.
template <class T>
double adasum_tolerance(double want, double largest) {
  if constexpr (std::is_same_v<T, double>) return 1e-12 * largest;
  const double wide = 0x1p-20 * largest;
  if constexpr (std::is_same_v<T, float>) return wide;
  if constexpr (std::is_same_v<T, hvd::Float16>)
    return wide + std::max(0x1p-11 * std::fabs(want), 0x1p-25);
  return wide + 0x1p-8 * std::fabs(want);
}

template <class T>
void check_adasum_result(const AdasumCase& c, const char* got, std::size_t ranks) {
  std::vector<Vector> rows;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    rows.emplace_back();
    for (const T value : adasum_input<T>(c, rank)) rows.back().push_back(widen(value));
  }
  const Vector want = adaptive_sum(rows, c.parts, c.reduction.prescale, c.reduction.postscale);
  std::size_t i = 0;
  for (const std::size_t count : c.parts) {
    double largest = 0;
    for (const Vector& row : rows)
      for (std::size_t at = i; at < i + count; ++at)
        largest = std::max(largest, std::fabs(row[at] * c.reduction.prescale));
    largest *= std::fabs(c.reduction.postscale) * static_cast<double>(ranks);
    for (const std::size_t end = i + count; i < end; ++i) {
      T element;
      std::memcpy(&element, got + i * sizeof(T), sizeof(T));
      const double value = widen(element);
      if (!(std::fabs(value - want[i]) <= adasum_tolerance<T>(want[i], largest)))
        throw std::runtime_error(name_of(c) + ": element " + std::to_string(i) + " is " +
                                 std::to_string(value) + ", not " + std::to_string(want[i]));
    }
  }
}

// Tensors of so many elements, with `gap` bytes behind each.
inline std::vector<BufferPart> row_of(const void* input, void* output,
                                      const std::vector<std::size_t>& parts, hvd::DataType type,
                                      std::size_t gap = 0) {
  std::vector<BufferPart> tensors;
  tensors.reserve(parts.size());
  std::size_t begin = 0;
  for (const std::size_t count : parts) {
    tensors.push_back(
        {static_cast<const char*>(input) + begin, static_cast<char*>(output) + begin, count});
    begin += count * element_size(type) + gap;
  }
  return tensors;
}

// Returns the bytes of the result; throws when a byte beside it was touched.
template <class T>
std::vector<char> run_adasum_case(const AdasumCase& c, Communicator& communicator,
                                  BufferSource* memory) {
  constexpr std::size_t kGuard = 64;
  constexpr char kFill = 0x5a;
  const std::vector<T> mine = adasum_input<T>(c, static_cast<std::size_t>(communicator.rank()));
  const std::size_t gap = c.scattered ? 24 : 0;
  const std::size_t bytes = mine.size() * sizeof(T) + c.parts.size() * gap;
  BufferSource* const source = c.shared ? memory : nullptr;
  const Buffer input(bytes + c.misalign, kFill, source);
  const Buffer output(bytes + c.misalign + kGuard, kFill, source);
  char* const to = output.data() + c.misalign;
  char* const from = c.in_place ? to : input.data() + c.misalign;
  const std::vector<BufferPart> tensors = row_of(from, to, c.parts, c.reduction.type, gap);
  const T* next = mine.data();
  for (const BufferPart& tensor : tensors) {
    if (tensor.count > 0)
      std::memcpy(const_cast<void*>(tensor.input), next, tensor.count * sizeof(T));
    next += tensor.count;
  }
  const std::vector<char> before = input.copy();
  adasum(communicator, tensors, c.reduction, {.timeout = std::chrono::seconds(60)});
  const auto untouched = [](const char* begin, std::size_t count) {
    return std::all_of(begin, begin + count, [](char byte) { return byte == kFill; });
  };
  expect(untouched(to + bytes, kGuard), name_of(c) + ": wrote behind the output");
  expect(before == input.copy(), name_of(c) + ": changed the input");
  std::vector<char> result;
  bool gaps_untouched = true;
  for (const BufferPart& tensor : tensors) {
    const auto* const begin = static_cast<const char*>(tensor.output);
    const char* const end = begin + tensor.count * sizeof(T);
    result.insert(result.end(), begin, end);
    gaps_untouched = gaps_untouched && untouched(end, gap);
  }
  expect(gaps_untouched, name_of(c) + ": wrote between the outputs");
  return result;
}

// The bits of the result on each rank, which must be those on rank 0; that compares them with the
// reference.
class AdasumResults {
 public:
  explicit AdasumResults(std::size_t ranks) : bits_(ranks) {}

  void run(const AdasumCase& c, Communicator& communicator, BufferSource* memory) {
    const auto rank = static_cast<std::size_t>(communicator.rank());
    with_type(c.reduction.type, [&](auto element) {
      using T = decltype(element);
      if constexpr (kIsSmallFloat<T> || std::is_floating_point_v<T>) {
        bits_[rank].push_back(run_adasum_case<T>(c, communicator, memory));
        if (rank == 0) check_adasum_result<T>(c, bits_[0].back().data(), bits_.size());
      }
    });
  }
  bool all_same() const {
    return std::all_of(bits_.begin(), bits_.end(),
                       [&](const auto& own) { return own == bits_[0]; });
  }
  bool operator==(const AdasumResults& other) const { return bits_ == other.bits_; }

 private:
  std::vector<std::vector<std::vector<char>>> bits_;  // by rank
};

// Not thorough: without the largest, and every third of the rest, which still has all dtypes, rows
// and ways.
inline std::vector<AdasumCase> adasum_cases(bool thorough) {
  // Nothing, one path, the other one, slices that end within tensors, more tensors than a row of
  // them has ranks, ranks without a slice.
  std::vector<std::vector<std::size_t>> rows{{0},       {},
                                             {1},       {5},
                                             {0, 3, 0}, {1, 1, 1, 1, 1, 1, 1},
                                             {1000},    {3, 700, 64},
                                             {40'000},  {1, 33'333, 70}};
  if (thorough) rows.push_back({300'000});
  rows.emplace_back(20'000, 1);
  std::vector<AdasumCase> cases;
  for (const hvd::DataType type : kAdasumTypes)
    for (const auto& parts : rows)
      for (const bool in_place : {false, true}) {
        AdasumCase c;
        c.reduction.type = type;
        c.parts = parts;
        c.in_place = in_place;
        c.round = cases.size() + 1;
        c.misalign = c.round % 3;
        c.shared = c.round / 2 % 2 == 0;
        c.scattered = c.round / 4 % 2 == 0;
        if (c.round % 5 == 0) c.reduction.prescale = 0.37;
        if (c.round % 7 == 0) c.reduction.postscale = -1.75;
        cases.push_back(c);
      }
  if (thorough) return cases;
  std::vector<AdasumCase> some;
  for (std::size_t i = 0; i < cases.size(); i += 3) some.push_back(cases[i]);
  return some;
}

inline std::vector<AdasumCase> random_adasum_cases(std::uint64_t seed, std::size_t count) {
  std::mt19937_64 random(seed);
  std::vector<AdasumCase> cases(count);
  for (AdasumCase& c : cases) {
    c.reduction.type = kAdasumTypes[random() % kAdasumTypes.size()];
    if (random() % 4 == 0) c.reduction.prescale = 0.37;
    if (random() % 4 == 0) c.reduction.postscale = -1.75;
    c.parts.resize(random() % (std::size_t{1} << (random() % 8)));
    for (std::size_t& part : c.parts) part = random() % (std::size_t{1} << (random() % 14));
    c.in_place = random() % 2 == 0;
    c.shared = random() % 2 == 0;
    c.scattered = random() % 2 == 0;
    c.misalign = random() % 9;
    c.round = random() % 1'000'000;
  }
  return cases;
}

}  // namespace hvdrun::test
