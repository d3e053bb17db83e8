// Memory that ends where a test says so. Replaces operator new of the whole program; to be included
// by one of its files.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>

namespace hvdrun::test {

// The allocation of this thread that fails, counted from 0; below zero: none.
inline thread_local int failing_allocation = -1;

}  // namespace hvdrun::test

// Not inlined: the compiler would see malloc() and delete side by side, and warn.
[[gnu::noinline]] void* operator new(std::size_t size) {
  int& left = hvdrun::test::failing_allocation;
  if (left >= 0 && left-- == 0) throw std::bad_alloc();
  if (void* const memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return std::malloc(size == 0 ? 1 : size);
}
[[gnu::noinline]] void operator delete(void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
