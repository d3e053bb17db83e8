// The arithmetic that results are promised in, while it lives: subnormal numbers are kept, results
// are rounded to the nearest even, nothing traps. A caller's thread may be in another mode
// (torch::set_flush_denormal, -ffast-math) where the engine's, which runs the same operation on
// another rank, is not: the ranks' results would differ. Costs a few nanoseconds, and a few tens
// where the mode is another one.
#pragma once

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace hvdrun {

class DefaultFloatMode {
 public:
  DefaultFloatMode() : before_(read()), changed_((before_ & ~kFlags) != kDefault) {
    if (changed_) write(kDefault);
  }
  ~DefaultFloatMode() {
    if (changed_) write(before_);
  }
  DefaultFloatMode(const DefaultFloatMode&) = delete;
  DefaultFloatMode& operator=(const DefaultFloatMode&) = delete;

 private:
#if defined(__x86_64__)
  using Register = unsigned;
  static constexpr Register kDefault = 0x1f80;  // all exceptions masked, the rest 0
  static constexpr Register kFlags = 0x3f;      // what has happened so far: no part of the mode
  static Register read() { return _mm_getcsr(); }
  static void write(Register value) { _mm_setcsr(value); }
#elif defined(__aarch64__)
  using Register = unsigned long;
  static constexpr Register kDefault = 0;
  static constexpr Register kFlags = 0;
  static Register read() {
    Register value = 0;
    asm volatile("mrs %0, fpcr" : "=r"(value));
    return value;
  }
  static void write(Register value) { asm volatile("msr fpcr, %0" : : "r"(value) : "memory"); }
#else
  using Register = unsigned;
  static constexpr Register kDefault = 0;
  static constexpr Register kFlags = 0;
  static Register read() { return kDefault; }
  static void write(Register /*value*/) {}
#endif

  const Register before_;
  const bool changed_;
};

}  // namespace hvdrun
