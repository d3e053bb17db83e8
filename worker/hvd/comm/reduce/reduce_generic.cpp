#define HVD_REDUCE_VARIANT reduce_generic
#include "worker/hvd/comm/reduce/reduce_loops.h"
