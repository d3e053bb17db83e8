// What a training program keeps of the memory that a step has freed. No LibTorch in here.
#pragma once

namespace hvdrun {

// Called first in main(), while there is one thread: glibc then keeps freed memory for the next
// step, up to 1 GiB of it, instead of giving it back and having it cleared by the kernel anew.
void keep_freed_memory();

}  // namespace hvdrun
