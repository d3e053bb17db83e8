#define HVD_REDUCE_VARIANT reduce_avx2
#include "worker/hvd/comm/reduce/reduce_loops.h"
