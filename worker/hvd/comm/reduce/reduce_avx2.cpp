#define HVD_REDUCE_VARIANT reduce_avx2
#include "worker/comm/reduce_loops.h"
