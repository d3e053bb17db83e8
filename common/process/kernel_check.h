// Features that hvdrun cannot do without, and that an old kernel or a filter of system calls may
// not have.
#pragma once

#include <string>

namespace hvdrun {

// One line that says what is missing and which kernel has it; "" when nothing is. The other new
// calls (close_range, memfd_create, pidfd_send_signal) have a fallback where they are used.
std::string missing_kernel_feature();

}  // namespace hvdrun
