#define HVD_REDUCE_VARIANT reduce_avx512
#include "worker/hvd/comm/reduce/reduce_loops.h"
