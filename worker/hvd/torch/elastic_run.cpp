#include <hvd/elastic.h>

#include "worker/hvd/torch/tensor_types.h"

namespace hvd::elastic {

// Friend of State.
class Run {
 public:
  static void meet_again(State& state, const InitOptions& options) {
    shutdown();
    init(options);
    state.on_reset();
  }
};

}  // namespace hvd::elastic

namespace hvdrun {
namespace {

// Every rank of the operation has it, or hears of it as soon as this one leaves the job.
bool is_survivable(hvd::ErrorCode code) {
  switch (code) {
    case hvd::ErrorCode::mismatch:
    case hvd::ErrorCode::peer_lost:
    case hvd::ErrorCode::timeout:
    case hvd::ErrorCode::unavailable:
    case hvd::ErrorCode::internal:
      return true;
    case hvd::ErrorCode::not_initialized:
    case hvd::ErrorCode::invalid_argument:
      break;
  }
  return false;
}

}  // namespace
}  // namespace hvdrun

namespace hvd::elastic {

void run(State& state, const std::function<void()>& train, const RunOptions& options) {
  if (options.max_failures < 1)
    hvdrun::invalid_tensor("elastic::run: max_failures is " + std::to_string(options.max_failures) +
                           "; at least 1");
  int failures = 0;
  while (true) {
    const std::uint64_t commits = state.commits();
    try {
      state.sync();
      return train();
    } catch (const Error& error) {
      if (!hvdrun::is_survivable(error.code())) throw;
      if (state.commits() != commits) failures = 0;
      if (++failures == options.max_failures) throw;
    }
    state.restore();
    Run::meet_again(state, options.init);
  }
}

CommitEvery::CommitEvery(State& state, int batches) : state_(state), batches_(batches) {
  if (batches < 1)
    hvdrun::invalid_tensor("elastic::CommitEvery: " + std::to_string(batches) +
                           " batches; at least 1");
}

void CommitEvery::on_batch_end() {
  if (++since_ < batches_) return;
  since_ = 0;
  state_.commit();
}

}  // namespace hvd::elastic
