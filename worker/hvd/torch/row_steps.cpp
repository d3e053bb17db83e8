#include "worker/hvd/torch/row_steps.h"

#include <utility>

namespace hvdrun {

void RowSteps::submitted(std::vector<hvd::Handle> handles) {
  const std::lock_guard<std::mutex> lock(mutex_);
  last_.handles = std::move(handles);
  ended_ = true;
  changed_.notify_all();
}

void RowSteps::failed(std::exception_ptr error, std::vector<hvd::Handle> handles) {
  const std::lock_guard<std::mutex> lock(mutex_);
  last_.handles = std::move(handles);
  last_.error = std::move(error);
  ended_ = true;
  changed_.notify_all();
}

RowSteps::Last RowSteps::wait() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [&] { return ended_; });
  return last_;
}

bool RowSteps::wait_for(std::chrono::milliseconds limit) {
  std::unique_lock<std::mutex> lock(mutex_);
  return changed_.wait_for(lock, limit, [&] { return ended_; });
}

bool RowSteps::is_last() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return ended_;
}

}  // namespace hvdrun
