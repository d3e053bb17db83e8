#define HVD_REDUCE_VARIANT reduce_avx512
#include "worker/comm/reduce_loops.h"
