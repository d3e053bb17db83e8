// Memory that a step has freed, and that a training program keeps. No LibTorch in here.
#pragma once

namespace hvdrun {

// Called first in main(), while there is one thread. glibc then keeps up to 1 GiB of freed memory
// for the next step. Given back, it would be cleared by the kernel anew.
void keep_freed_memory();

}  // namespace hvdrun
