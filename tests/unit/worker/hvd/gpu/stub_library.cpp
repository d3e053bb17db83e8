// Libraries that are what test_loader.cpp needs them to be: -DSTUB_CUDA or -DSTUB_NCCL, with a
// result, a version, and all functions or only the first ones. The parameters do not matter: what
// is not called needs none, and the others take them from their callers' registers.
#include "worker/hvd/gpu/cuda_api.h"
#include "worker/hvd/gpu/nccl_api.h"

#define STUB extern "C" __attribute__((visibility("default")))
#define STUB_FUNCTION(member, symbol, parameters) \
  STUB int symbol() { return 0; }

#if defined(STUB_CUDA)
STUB int cuInit(unsigned) { return STUB_RESULT; }
STUB int cuDriverGetVersion(int* version) {
  *version = STUB_VERSION;
  return 0;
}
STUB int cuGetErrorName(int, const char** text) {
  *text = "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH";
  return 0;
}
STUB int cuGetErrorString(int, const char** text) {
  *text = "system has unsupported display driver / cuda driver combination";
  return 0;
}
#if defined(STUB_WHOLE)
#define cuDeviceGetCount cuDeviceGetCountOfNobody
HVD_CUDA_FUNCTIONS(STUB_FUNCTION)
#undef cuDeviceGetCount
STUB int cuDeviceGetCount(int* count) {
  *count = STUB_DEVICES;
  return 0;
}
#endif
#endif

#if defined(STUB_NCCL)
STUB int ncclGetVersion(int* version) {
  *version = STUB_VERSION;
  return 0;
}
#if defined(STUB_WHOLE)
HVD_NCCL_FUNCTIONS(STUB_FUNCTION)
HVD_NCCL_TEXT_FUNCTIONS(STUB_FUNCTION)
#endif
#endif
