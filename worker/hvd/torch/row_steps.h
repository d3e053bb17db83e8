// The steps of an operation on rows that goes on while the program does something else, as the
// program's handle sees them.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include <hvd/torch.h>

namespace hvdrun {

// The common part of the program's handle and libhvd. The operation of a handle that is gone must
// still be taken part in, so libhvd's side keeps it alive.
class RowSteps {
 public:
  // The last step's, which must have been submitted: to be synchronized by the handle, then the
  // results are there.
  struct Last {
    std::vector<hvd::Handle> handles;
    std::exception_ptr error;  // no step comes any more
  };

  // Until the last step has been submitted; any thread.
  Last wait();
  bool wait_for(std::chrono::milliseconds limit);
  bool is_last();

  void submitted(std::vector<hvd::Handle> handles);
  void failed(std::exception_ptr error, std::vector<hvd::Handle> handles = {});

  // Written by the steps before submitted(), read after wait().
  std::vector<at::Tensor> inputs;  // held while they are read
  std::vector<at::Tensor> outputs;
  std::vector<std::int64_t> received_splits;
  std::vector<std::vector<std::int64_t>> rows_of_ranks;  // of each part
  // From the outputs to the results of the handle; none: they are that.
  std::function<std::vector<at::Tensor>(const std::vector<at::Tensor>&)> finish;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false;
  Last last_;
};

}  // namespace hvdrun
