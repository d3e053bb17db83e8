#include "worker/hvd/comm/reduce/copy.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <unistd.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace hvdrun {
namespace {

constexpr std::size_t kLine = 64;

// Half of the last cache: the sources are in it as well. A machine that does not say how much it
// has (another architecture, some containers) counts as one with 32 MiB.
std::size_t streaming_bytes() {
  static const std::size_t bytes = [] {
    const long cache = ::sysconf(_SC_LEVEL3_CACHE_SIZE);
    return (cache > 0 ? static_cast<std::size_t>(cache) : std::size_t{32} << 20) / 2;
  }();
  return bytes;
}

}  // namespace

void copy_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
  if (bytes > 0) std::memcpy(to, from, bytes);
}

void stream_bytes(std::byte* to, const std::byte* from, std::size_t bytes) {
#if defined(__SSE2__)
  const std::size_t past = reinterpret_cast<std::uintptr_t>(to) % kLine;
  const std::size_t head = std::min(bytes, past == 0 ? 0 : kLine - past);
  copy_bytes(to, from, head);
  to += head;
  from += head;
  bytes -= head;
  for (; bytes >= kLine; bytes -= kLine, to += kLine, from += kLine) {
    const auto* source = reinterpret_cast<const __m128i*>(from);
    auto* target = reinterpret_cast<__m128i*>(to);
    const __m128i first = _mm_loadu_si128(source);
    const __m128i second = _mm_loadu_si128(source + 1);
    const __m128i third = _mm_loadu_si128(source + 2);
    const __m128i fourth = _mm_loadu_si128(source + 3);
    _mm_stream_si128(target, first);
    _mm_stream_si128(target + 1, second);
    _mm_stream_si128(target + 2, third);
    _mm_stream_si128(target + 3, fourth);
  }
  // Such stores are not ordered with others: without it a rank could arrive before its bytes do.
  _mm_sfence();
#endif
  copy_bytes(to, from, bytes);
}

Copy copy_for(std::size_t bytes) { return bytes >= streaming_bytes() ? stream_bytes : copy_bytes; }

}  // namespace hvdrun
