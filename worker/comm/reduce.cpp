#include "worker/comm/reduce.h"

namespace hvdrun {

#define HVD_DECLARE_VARIANT(name)                                                               \
  namespace name {                                                                              \
  void reduce(const std::byte* const* sources, std::size_t ranks, std::size_t count,            \
              const Reduction& reduction, std::byte* const* outputs, std::size_t output_count); \
  }
HVD_DECLARE_VARIANT(reduce_generic)  // on aarch64 this is NEON, which no test has run
#if defined(__x86_64__)
HVD_DECLARE_VARIANT(reduce_avx2)
HVD_DECLARE_VARIANT(reduce_avx512)
#endif
#undef HVD_DECLARE_VARIANT

std::size_t reduce_variants(ReduceVariant (&variants)[kMaxReduceVariants]) {
  std::size_t count = 0;
  variants[count++] = {"generic", reduce_generic::reduce};
#if defined(__x86_64__)
  // Every processor with AVX2 has F16C.
  const bool avx2 = __builtin_cpu_supports("avx2") != 0;
  if (avx2) variants[count++] = {"avx2", reduce_avx2::reduce};
  if (avx2 && __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
      __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0)
    variants[count++] = {"avx512", reduce_avx512::reduce};
#endif
  return count;
}

namespace {

decltype(&reduce) best_variant() {
  ReduceVariant variants[kMaxReduceVariants];
  return variants[reduce_variants(variants) - 1].function;
}

}  // namespace

void reduce(const std::byte* const* sources, std::size_t ranks, std::size_t count,
            const Reduction& reduction, std::byte* const* outputs, std::size_t output_count) {
  static const auto best = best_variant();
  best(sources, ranks, count, reduction, outputs, output_count);
}

}  // namespace hvdrun
