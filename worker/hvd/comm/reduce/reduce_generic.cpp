#define HVD_REDUCE_VARIANT reduce_generic
#include "worker/comm/reduce_loops.h"
