// The C interface of libhvd_cuda.so, our own GPU kernels, which nvcc builds where it is. libhvd
// loads it at run time (kernels.h). Also read by nvcc: plain C types only.
//
// Types are the numbers of hvd::DataType. Memory is the GPU's; `stream` is a CUstream of the
// current context, on which everything is queued: nothing waits. The result is 0 or a cudaError.
#pragma once

#include <stddef.h>

// Changes with any change below: libhvd takes no other version than its own.
#define HVD_CUDA_ABI_VERSION 2

// clang-format off
#define HVD_CUDA_KERNELS(one) \
  /* output[i] = input[i] * first * second; may be in place. In float32, rounded once (float64 for */ \
  /* float64 and integers, which are truncated toward zero and limited to what their type holds */ \
  /* after each factor; NaN becomes 0). */ \
  one(scale, hvd_cuda_scale, \
      (const void* input, void* output, size_t count, int type, double first, double second, \
       void* stream)) \
  /* Of floating-point numbers: keys[i] is an int32, for float64 an int64, and in the order in */ \
  /* which the numbers input[i] * factor are, -0 before 0. A NaN is the largest key or the smallest, */ \
  /* which no number has. In place where the widths are the same. */ \
  one(order, hvd_cuda_order, \
      (const void* input, void* keys, size_t count, int type, double factor, int nan_is_largest, \
       void* stream)) \
  /* The numbers of such keys, times factor, rounded once. In place likewise. */ \
  one(restore, hvd_cuda_restore, \
      (const void* keys, void* output, size_t count, int type, double factor, void* stream)) \
  /* Any other byte than 0 becomes 1. */ \
  one(normalise_boolean, hvd_cuda_normalise_boolean, \
      (void* data, size_t count, void* stream)) \
  /* float32 to float16 or bfloat16 (`type`), rounded to the nearest even, and back. */ \
  one(compress, hvd_cuda_compress, \
      (const void* input, void* output, size_t count, int type, void* stream)) \
  one(decompress, hvd_cuda_decompress, \
      (const void* input, void* output, size_t count, int type, void* stream)) \
  /* scratch: hvd_cuda_adasum_scratch() doubles. The first three become a*b, a*a and b*b, summed */ \
  /* in float64 in an order that only `count` decides: the same bits on every rank. */ \
  one(adasum_dots, hvd_cuda_adasum_dots, \
      (const void* a, const void* b, size_t count, int type, double* scratch, void* stream)) \
  /* output = (1 - a*b / 2 a*a) a + (1 - a*b / 2 b*b) b; may be a or b. */ \
  one(adasum_combine, hvd_cuda_adasum_combine, \
      (const void* a, const void* b, void* output, size_t count, int type, const double* dots, \
       void* stream))
