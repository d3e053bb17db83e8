// The arithmetic of each instruction set against the plain one, and against each other bit by bit.
#include <random>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/unit/worker/hvd/comm/reference.h"
#include "tests/unit/worker/hvd/comm/reference_types.h"
#include "worker/hvd/comm/reduce/reduce.h"

namespace hvdrun {
namespace {

using hvd::DataType;
using hvd::ReduceOp;

const std::vector<DataType> kAllTypes = {DataType::uint8,   DataType::int8,     DataType::uint16,
                                         DataType::int16,   DataType::int32,    DataType::int64,
                                         DataType::float16, DataType::bfloat16, DataType::float32,
                                         DataType::float64, DataType::boolean};
const std::vector<ReduceOp> kAllOps = {ReduceOp::average, ReduceOp::sum, ReduceOp::min,
                                       ReduceOp::max, ReduceOp::product};

std::vector<ReduceVariant> variants() {
  ReduceVariant list[kMaxReduceVariants];
  return {list, list + reduce_variants(list)};
}

using Bytes = std::vector<std::byte>;

// `at_once` ranks in a call, as when they stand on several hosts; 0: all.
std::vector<Bytes> run_variant(const ReduceVariant& variant, const std::vector<Bytes>& inputs,
                               std::size_t count, const Reduction& reduction, std::size_t outputs,
                               std::size_t misalign, std::size_t at_once = 0) {
  const std::size_t bytes = count * element_size(reduction.type);
  std::vector<const std::byte*> sources;
  std::vector<Bytes> shifted;
  for (const Bytes& input : inputs) {
    shifted.emplace_back(misalign);
    shifted.back().insert(shifted.back().end(), input.begin(), input.end());
  }
  for (const Bytes& input : shifted) sources.push_back(input.data() + misalign);
  std::vector<Bytes> results(outputs, Bytes(bytes + misalign + 1, std::byte{0x5a}));
  std::vector<std::byte*> targets;
  for (Bytes& result : results) targets.push_back(result.data() + misalign);
  Bytes prefix;
  PartOfReduction part{.ranks = sources.size()};
  std::size_t done = 0;
  for (; at_once > 0 && done + at_once < sources.size(); done += at_once) {
    Bytes next(count * accumulator_bytes(reduction) + misalign);
    std::byte* const target = next.data() + misalign;
    part.unfinished = true;
    variant.function(sources.data() + done, at_once, count, reduction, &target, 1, part);
    prefix = std::move(next);
    part.prefix = prefix.data() + misalign;
  }
  part.unfinished = false;
  variant.function(sources.data() + done, sources.size() - done, count, reduction, targets.data(),
                   outputs, part);
  for (Bytes& result : results) {
    CHECK(result.back() == std::byte{0x5a});
    result = Bytes(result.begin() + static_cast<std::ptrdiff_t>(misalign), result.end() - 1);
  }
  return results;
}

template <class T>
std::vector<Bytes> inputs_of(std::uint64_t round, std::size_t ranks, std::size_t count) {
  std::vector<Bytes> inputs;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    Bytes bytes(count * sizeof(T));
    for (std::size_t i = 0; i < count; ++i) {
      const T value = test::value_of<T>(round, rank, i);
      std::memcpy(bytes.data() + i * sizeof(T), &value, sizeof(T));
    }
    inputs.push_back(std::move(bytes));
  }
  return inputs;
}

template <class T>
void check_against_reference(const ReduceVariant& variant, const Reduction& reduction,
                             std::size_t ranks, std::size_t count, std::uint64_t round) {
  const auto results = run_variant(variant, inputs_of<T>(round, ranks, count), count, reduction,
                                   1 + round % 4, round / 4 % 4, round / 7 % 3);
  for (const Bytes& result : results) {
    for (std::size_t i = 0; i < count; ++i) {
      T got;
      std::memcpy(&got, result.data() + i * sizeof(T), sizeof(T));
      const T want =
          test::reduced<T>(round, ranks, i, reduction.op, reduction.prescale, reduction.postscale);
      if (test::same(got, want)) continue;
      FAIL(variant.name << ", type " << int(reduction.type) << ", op " << int(reduction.op) << ", "
                        << ranks << " ranks, element " << i << ": " << test::widen(got) << ", not "
                        << test::widen(want));
    }
  }
}

TEST_CASE("every type and operation gives the serial result on every instruction set", "[reduce]") {
  std::uint64_t round = 0;
  for (const ReduceVariant& variant : variants()) {
    for (const DataType type : kAllTypes) {
      for (const ReduceOp op : kAllOps) {
        if (type == DataType::boolean && op == ReduceOp::average) continue;
        for (const std::size_t ranks : {1, 2, 3, 4, 5}) {
          for (const std::size_t count : {0, 1, 7, 8, 9, 511, 512, 513, 1100}) {
            ++round;
            Reduction reduction{type, op};
            if (round % 3 == 0 && type != DataType::boolean) reduction.prescale = 0.37;
            if (round % 4 == 0 && type != DataType::boolean) reduction.postscale = -1.75;
            test::with_type(type, [&](auto element) {
              check_against_reference<decltype(element)>(variant, reduction, ranks, count, round);
            });
          }
        }
      }
    }
  }
}

// Either of two NaNs may be the result: that is the compiler's choice of operands.
std::size_t differing_elements(const Bytes& a, const Bytes& b, DataType type) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < a.size(); i += 2) {
    std::uint16_t x = 0;
    std::uint16_t y = 0;
    std::memcpy(&x, a.data() + i, 2);
    std::memcpy(&y, b.data() + i, 2);
    const bool equal = type == DataType::float16 ? test::same(hvd::Float16{x}, hvd::Float16{y})
                                                 : test::same(hvd::BFloat16{x}, hvd::BFloat16{y});
    count += equal ? 0 : 1;
  }
  return count;
}

TEST_CASE("all bit patterns give the same bits on every instruction set", "[reduce]") {
  const auto all = variants();
  const DataType type = GENERATE(DataType::float16, DataType::bfloat16);
  Bytes patterns(65536 * 2);
  for (std::size_t i = 0; i < 65536; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    std::memcpy(patterns.data() + 2 * i, &bits, 2);
  }
  std::mt19937_64 random(1);
  Bytes others(patterns.size());
  for (std::byte& byte : others) byte = static_cast<std::byte>(random());
  for (const ReduceOp op : kAllOps) {
    // Alone each pattern comes through the conversion and back; with others the sums are rounded.
    for (const auto& inputs :
         {std::vector<Bytes>{patterns}, std::vector<Bytes>{patterns, others}}) {
      const Bytes plain = run_variant(all.front(), inputs, 65536, {type, op}, 1, 0).front();
      for (const ReduceVariant& variant : all) {
        CAPTURE(variant.name, int(op), inputs.size());
        const Bytes result = run_variant(variant, inputs, 65536, {type, op}, 1, 0).front();
        CHECK(differing_elements(result, plain, type) == 0);
      }
    }
  }
}

TEST_CASE("16-bit floats convert exactly and round to the nearest even", "[reduce]") {
  // Alone a number comes back; a NaN stays one.
  for (std::uint32_t i = 0; i < 65536; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const auto* const source = reinterpret_cast<const std::byte*>(&bits);
    for (const DataType type : {DataType::float16, DataType::bfloat16}) {
      std::uint16_t result = 0;
      auto* const target = reinterpret_cast<std::byte*>(&result);
      reduce_buffers(&source, 1, 1, {type, ReduceOp::sum}, &target, 1);
      const bool good = type == DataType::float16
                            ? test::same(hvd::Float16{bits}, hvd::Float16{result})
                            : test::same(hvd::BFloat16{bits}, hvd::BFloat16{result});
      if (!good) FAIL(int(type) << ": " << bits << " became " << result);
    }
  }
}

TEST_CASE("an output may be one of the sources", "[reduce]") {
  std::vector<float> a(1000, 1.0F);
  std::vector<float> b(1000, 2.0F);
  const std::byte* const sources[] = {reinterpret_cast<const std::byte*>(a.data()),
                                      reinterpret_cast<const std::byte*>(b.data())};
  std::byte* const targets[] = {reinterpret_cast<std::byte*>(b.data()),
                                reinterpret_cast<std::byte*>(a.data())};
  reduce_buffers(sources, 2, a.size(), {DataType::float32, ReduceOp::average}, targets, 2);
  CHECK(a == std::vector<float>(1000, 1.5F));
  CHECK(b == a);
}

TEST_CASE("scaled integers are limited to what their type holds", "[reduce]") {
  const std::int8_t input[] = {100, -100, 3, -3};
  std::int8_t output[4];
  const auto* const source = reinterpret_cast<const std::byte*>(input);
  auto* const target = reinterpret_cast<std::byte*>(output);
  reduce_buffers(&source, 1, 4, {DataType::int8, ReduceOp::sum, 2.0, 1.0}, &target, 1);
  CHECK(std::vector<int>(output, output + 4) == std::vector<int>{127, -128, 6, -6});
  reduce_buffers(&source, 1, 4, {DataType::int8, ReduceOp::sum, 1.0, 0.5}, &target, 1);
  CHECK(std::vector<int>(output, output + 4) == std::vector<int>{50, -50, 1, -1});
}

}  // namespace
}  // namespace hvdrun
