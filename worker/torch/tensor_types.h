// What a tensor must be to take part in a collective.
#pragma once

#include <ATen/ATen.h>
#include <hvd/hvd.h>

namespace hvdrun {

// Dense, on the CPU, of a known dtype; otherwise Error(invalid_argument) that begins with `what`.
hvd::DataType check_tensor(const char* what, const at::Tensor& tensor);

}  // namespace hvdrun
