#include "worker/hvd/comm/reduce/reduce.h"

#include <cassert>

#include "worker/hvd/comm/reduce/float_mode.h"

namespace hvdrun {

#define HVD_DECLARE_VARIANT(name)                                                            \
  namespace name {                                                                           \
  void reduce_buffers(const std::byte* const* sources, std::size_t ranks, std::size_t count, \
                      const Reduction& reduction, std::byte* const* outputs,                 \
                      std::size_t output_count, const PartOfReduction& part);                \
  }
HVD_DECLARE_VARIANT(reduce_generic)  // on aarch64 this is NEON, which no test has run
#if defined(__x86_64__)
HVD_DECLARE_VARIANT(reduce_avx2)
HVD_DECLARE_VARIANT(reduce_avx512)
#endif
#undef HVD_DECLARE_VARIANT

std::size_t reduce_variants(ReduceVariant (&variants)[kMaxReduceVariants]) {
  std::size_t count = 0;
  variants[count++] = {"generic", reduce_generic::reduce_buffers};
#if defined(__x86_64__)
  // Every processor with AVX2 has F16C.
  const bool avx2 = __builtin_cpu_supports("avx2") != 0;
  if (avx2) variants[count++] = {"avx2", reduce_avx2::reduce_buffers};
  if (avx2 && __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
      __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0)
    variants[count++] = {"avx512", reduce_avx512::reduce_buffers};
#endif
  return count;
}

namespace {

decltype(&reduce_buffers) best_variant() {
  ReduceVariant variants[kMaxReduceVariants];
  return variants[reduce_variants(variants) - 1].function;
}

}  // namespace

void reduce_buffers(const std::byte* const* sources, std::size_t ranks, std::size_t count,
                    const Reduction& reduction, std::byte* const* outputs, std::size_t output_count,
                    const PartOfReduction& part) {
  assert(reduction.op != hvd::ReduceOp::adasum);
  static const auto best = best_variant();
  const DefaultFloatMode mode;
  best(sources, ranks, count, reduction, outputs, output_count, part);
}

// As the loops choose their accumulators.
std::size_t accumulator_bytes(const Reduction& reduction) {
  switch (reduction.type) {
    case hvd::DataType::float16:
    case hvd::DataType::bfloat16:
      return sizeof(float);
    case hvd::DataType::float32:
    case hvd::DataType::float64:
    case hvd::DataType::int64:
    case hvd::DataType::boolean:
      return hvd::detail::element_size(reduction.type);
    case hvd::DataType::uint8:
    case hvd::DataType::int8:
    case hvd::DataType::uint16:
    case hvd::DataType::int16:
    case hvd::DataType::int32:
      break;
  }
  switch (reduction.op) {
    case hvd::ReduceOp::average:
      return sizeof(std::int64_t);
    case hvd::ReduceOp::sum:
    case hvd::ReduceOp::product:
      return sizeof(std::uint32_t);
    case hvd::ReduceOp::min:
    case hvd::ReduceOp::max:
    case hvd::ReduceOp::adasum:
      break;
  }
  return hvd::detail::element_size(reduction.type);
}

}  // namespace hvdrun
