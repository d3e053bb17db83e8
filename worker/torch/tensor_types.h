// What a tensor must be to take part in a collective, and how it is handed over.
#pragma once

#include <string>

#include <ATen/ATen.h>
#include <hvd/torch.h>

namespace hvdrun {

[[noreturn]] void invalid_tensor(const std::string& text);

// Dense, on the CPU, of a known dtype; otherwise Error(invalid_argument) that begins with `what`.
hvd::DataType check_tensor(const char* what, const at::Tensor& tensor);

// The dtype that a tensor of this one travels as.
at::ScalarType wire_type(at::ScalarType type, hvd::Compression compression);

// The libhvd operations see memory and nothing else, so autograd must be told that a tensor has
// changed: a later backward() through the old value is then an error, not a wrong gradient.
void mark_changed(const at::Tensor& tensor);

}  // namespace hvdrun
