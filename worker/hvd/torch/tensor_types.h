// The conditions for a tensor to take part in a collective, and the form in which it is handed
// over.
#pragma once

#include <string>

#include <ATen/ATen.h>
#include <hvd/torch.h>

namespace hvdrun {

[[noreturn]] void invalid_tensor(const std::string& text);

// Dense, on the CPU or on this rank's GPU, of a known dtype; otherwise Error(invalid_argument) that
// begins with `what`.
hvd::DataType check_tensor(const char* what, const at::Tensor& tensor);

// The dtype that a tensor of this one travels as.
at::ScalarType wire_type(at::ScalarType type, hvd::Compression compression);

// Where the tensor's memory is, and the stream that it is used on by now.
hvd::OperationOptions placed(const hvd::OperationOptions& options, const at::Tensor& tensor);
// The same with the tensor's shape, on which ranks must agree.
hvd::OperationOptions with_shape(const hvd::OperationOptions& options, const at::Tensor& tensor);

// For a step on host memory of an operation that the options are for, whatever that runs on;
// without a shape.
hvd::OperationOptions on_host(const hvd::OperationOptions& options);
// "NAME.part", for one of several operations that a call makes, on host memory; none where there is
// no name.
hvd::OperationOptions part_of(const hvd::OperationOptions& options, const std::string& part);

// Ranks of the process set, and this one's place among them.
int ranks_of(const hvd::OperationOptions& options);
int place_in(const hvd::OperationOptions& options);

// One element of it may stand in several places: it cannot be changed in place.
void check_not_expanded(const char* what, const at::Tensor& tensor);

// The libhvd operations see memory and nothing else, so autograd must be told that a tensor has
// changed: a later backward() through the old value is then an error, not a wrong gradient.
void mark_changed(const at::Tensor& tensor);

}  // namespace hvdrun
