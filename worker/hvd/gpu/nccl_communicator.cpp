// The life of a communicator: creation, failure, end. The operations are in nccl_operations.cpp.
#include "worker/hvd/gpu/nccl_communicator.h"

#include <algorithm>
#include <numeric>
#include <system_error>
#include <thread>

#include "worker/hvd/client/quiet_thread.h"
#include "worker/hvd/gpu/gpu_error.h"

namespace hvdrun {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// For a call under way, of which none should block: before an abort goes in beside it, and before
// the communicator is freed.
constexpr milliseconds kTakePatience{1'000};
constexpr milliseconds kFreePatience{1'000};
// The time that who has an error to tell waits for the end of an abort.
constexpr milliseconds kTellPatience{50};

std::vector<int> same_numbers(int size) {
  std::vector<int> names(static_cast<std::size_t>(size));
  std::iota(names.begin(), names.end(), 0);
  return names;
}

// Where NCCL's thread puts a new communicator when it is done. After a failure nobody knows when
// that is, so the place stays then.
class Slot {
 public:
  Slot() = default;
  Slot(const Slot&) = delete;
  Slot& operator=(const Slot&) = delete;
  ~Slot() {
    if (done_) return;
    static Mutex mutex;
    static Place* kept = nullptr;
    const MutexLock lock(mutex);
    place_->next = kept;
    kept = place_.release();
  }

  nccl::Comm* get() const { return &place_->comm; }
  void done() { done_ = true; }

 private:
  struct Place {
    nccl::Comm comm = nullptr;
    Place* next = nullptr;
  };
  std::unique_ptr<Place> place_ = std::make_unique<Place>();
  bool done_ = false;
};

void abort_one(const GpuParts& parts, NcclHandle& handle) {
  const DriverPass pass(DriverPass::For::the_end);
  if (!pass) return;
  nccl::Comm comm = handle.take(kTakePatience);
  if (comm == nullptr) return;
  const DeviceToFree current(*parts.device, DriverPass::For::the_end);
  parts.nccl->api.comm_abort(comm);
}

}  // namespace

NcclCommunicator::NcclCommunicator(GpuParts parts, int rank, int size, std::vector<int> names)
    : parts_(std::move(parts)),
      rank_(rank),
      size_(size),
      names_(names.empty() ? same_numbers(size) : std::move(names)),
      stream_(*parts_.device),
      graph_stream_(*parts_.device),
      timings_(*parts_.device) {}

NcclCommunicator::~NcclCommunicator() {
  abort(hvd::Error(hvd::ErrorCode::internal, "the communicator of " + who() + " is gone"));
  const cuda::Api& driver = parts_.device->api();
  const DeviceToFree current(*parts_.device);
  if (!current) return;
  const MutexLock lock(mutex_);
  for (const Pending& pending : pending_)
    if (pending.event != nullptr) driver.event_destroy(pending.event);
  for (const Captured& captured : captured_) driver.event_destroy(captured.event);
}

std::string NcclCommunicator::who() const {
  return "rank " + std::to_string(names_[static_cast<std::size_t>(rank_)]) + " on " +
         parts_.device->words();
}

nccl::UniqueId NcclCommunicator::make_id(const NcclLibrary& nccl) {
  nccl::UniqueId id{};
  if (const nccl::Result result = nccl.api.get_unique_id(&id); result != nccl::success)
    throw hvd::Error(code_of(result),
                     "ncclGetUniqueId: " + nccl_error_text(nccl.api, result, nullptr));
  return id;
}

void NcclCommunicator::connect(const nccl::UniqueId& id, Milliseconds timeout) {
  const TimePoint deadline = steady_clock::now() + timeout;
  const std::string what = "NCCL's communicator of " + std::to_string(size_) + " ranks";
  throw_if_failed();
  if (is_alone()) return;
  const CurrentDevice current(*parts_.device);
  nccl::Config config;
  config.blocking = 0;
  nccl::Comm comm = nullptr;
  const nccl::Result result = api().comm_init_rank_config(&comm, size_, id, rank_, &config);
  handle_->set(comm);
  if (result != nccl::success && result != nccl::in_progress) fail(result, comm, what);
  settle(what, deadline, timeout);
  guard_exit();
}

void NcclCommunicator::close(Milliseconds timeout) noexcept {
  const std::string what = "the end of NCCL's communicator";
  try {
    const TimePoint deadline = steady_clock::now() + timeout;
    const CurrentDevice current(*parts_.device);
    throw_if_failed();
    timings_.tell();
    const hvd::Error closed(hvd::ErrorCode::not_initialized,
                            "the communicator of " + who() + " has been closed");
    if (is_alone()) return void(set_failure(closed));
    nccl::Result result = nccl::success;
    {
      const NcclHandle::Use use(*handle_, kCallPatience);
      if (use.comm() == nullptr) return;
      result = api().comm_finalize(use.comm());
    }
    if (result != nccl::success && result != nccl::in_progress) fail(result, nullptr, what);
    settle(what, deadline, timeout);
    set_failure(closed);
    if (nccl::Comm comm = handle_->take(kFreePatience); comm != nullptr) api().comm_destroy(comm);
  } catch (const hvd::Error& error) {
    abort(error);
  }
}

bool NcclCommunicator::set_failure(const hvd::Error& reason) {
  const MutexLock lock(mutex_);
  const bool is_first = !failure_;
  if (is_first) failure_ = reason;
  changed_.notify_all();
  return is_first;
}

std::optional<hvd::Error> NcclCommunicator::failure() {
  const MutexLock lock(mutex_);
  return failure_;
}

void NcclCommunicator::throw_if_failed() {
  if (const auto reason = failure()) throw hvd::Error(*reason);
}

void NcclCommunicator::fail(const hvd::Error& error) {
  set_failure(error);
  begin_abort()->wait_until(steady_clock::now() + kTellPatience);
  // An abort from elsewhere may have been first: that is the reason then.
  throw hvd::Error(*failure());
}

void NcclCommunicator::fail(nccl::Result result, nccl::Comm comm, const std::string& what) {
  throw_if_failed();
  fail(hvd::Error(code_of(result),
                  who() + ": " + what + ": " + nccl_error_text(api(), result, comm)));
}

void NcclCommunicator::no_communicator(const std::string& what) {
  throw_if_failed();
  fail(hvd::Error(hvd::ErrorCode::internal,
                  who() + ": " + what + ": its communicator is not connected, or in use"));
}

void NcclCommunicator::pause(int turn) {
  // Most of these waits are for a thread of NCCL's that queues a kernel: some microseconds.
  if (turn < 100) {
    std::this_thread::yield();
    return;
  }
  const MutexLock lock(mutex_);
  if (!failure_)
    changed_.wait_until(mutex_, steady_clock::now() + (turn < 300 ? std::chrono::microseconds{100}
                                                                  : milliseconds{1}));
}

void NcclCommunicator::settle(const std::string& what, TimePoint deadline, Milliseconds timeout,
                              bool even_failed) {
  struct Waits {
    explicit Waits(NcclCommunicator& one) : owner(one) {
      const MutexLock lock(owner.mutex_);
      ++owner.waits_;
    }
    Waits(const Waits&) = delete;
    Waits& operator=(const Waits&) = delete;
    ~Waits() {
      const MutexLock lock(owner.mutex_);
      --owner.waits_;
    }
    NcclCommunicator& owner;
  } const waits(*this);
  for (int turn = 0;; turn = std::min(turn + 1, 1000)) {
    if (!even_failed) throw_if_failed();
    nccl::Result state = nccl::success;
    nccl::Result asked = nccl::success;
    nccl::Comm comm = nullptr;
    {
      const NcclHandle::Use use(*handle_, kCallPatience);
      comm = use.comm();
      if (comm != nullptr) asked = api().comm_get_async_error(comm, &state);
    }
    if (comm == nullptr) no_communicator(what);
    if (asked != nccl::success) fail(asked, comm, what);
    if (state == nccl::success) return;
    if (state != nccl::in_progress) fail(state, comm, what);
    if (steady_clock::now() >= deadline)
      fail(hvd::Error(hvd::ErrorCode::timeout, who() + ": " + what + ": not ready after " +
                                                   seconds_text(timeout) +
                                                   "; another rank did not take part"));
    pause(turn);
  }
}

void NcclCommunicator::abort(const hvd::Error& reason) {
  NcclCommunicator* const self = this;
  wait_for_aborts(begin_aborts({&self, 1}, reason));
}

NcclCommunicator::Aborts NcclCommunicator::begin_aborts(
    std::span<NcclCommunicator* const> communicators, const hvd::Error& reason) {
  // First all of them fail, so that none queues anything while others are aborted.
  for (NcclCommunicator* communicator : communicators) communicator->set_failure(reason);
  Aborts aborts;
  for (NcclCommunicator* communicator : communicators)
    aborts.push_back(communicator->begin_abort());
  return aborts;
}

bool NcclCommunicator::wait_for_aborts(const Aborts& aborts) {
  const auto deadline = steady_clock::now() + GpuAborts::kPatience;
  bool all = true;
  for (const std::shared_ptr<GpuAbort>& one : aborts) all = one->wait_until(deadline) && all;
  return all;
}

// The one under way, or a new one: since the last there may be a communicator again.
std::shared_ptr<GpuAbort> NcclCommunicator::begin_abort() {
  const MutexLock lock(mutex_);
  if (abort_ && !abort_->has_ended()) return abort_;
  abort_ = parts_.aborts->add();
  if (handle_->is_empty()) {
    abort_->end();
    return abort_;
  }
  try {
    quiet_thread([abort = abort_, parts = parts_, handle = handle_] {
      abort_one(parts, *handle);
      abort->end();
    }).detach();
  } catch (const std::system_error&) {
    abort_->end();  // no thread to be had: NCCL goes with the process, and nobody waits for that
  }
  return abort_;
}

void NcclCommunicator::peer_gone(int, const hvd::Error& reason) { abort(reason); }

std::optional<hvd::Error> NcclCommunicator::look(TimePoint now) {
  std::optional<hvd::Error> error;
  if (!failure()) error = find_trouble(now);
  // Not before: on a GPU that hangs this may take longer.
  tell_times();
  // In a program that ends without shutdown() CUDA goes first; what it says then is nobody's fault.
  if (error && parts_.device->has_closed()) error.reset();
  return error;
}

std::optional<hvd::Error> NcclCommunicator::find_trouble(TimePoint now) {
  try {
    const CurrentDevice current(*parts_.device);
    retire();
    nccl::Result state = nccl::success;
    {
      const NcclHandle::Use use(*handle_, Milliseconds{0});
      if (use.comm() != nullptr) {
        if (api().comm_get_async_error(use.comm(), &state) != nccl::success)
          state = nccl::internal_error;
        if (state != nccl::success && state != nccl::in_progress)
          return hvd::Error(code_of(state),
                            who() + ": NCCL: " + nccl_error_text(api(), state, use.comm()));
      }
    }
    const MutexLock lock(mutex_);
    if (!pending_.empty() && now >= pending_.front().deadline)
      return hvd::Error(hvd::ErrorCode::timeout,
                        who() + ": " + describe(pending_.front().what) + ": not done after " +
                            seconds_text(pending_.front().timeout) +
                            (is_alone() ? "; what is before it on the GPU takes longer, or hangs"
                                        : "; another rank did not take part, or its GPU hangs"));
  } catch (const hvd::Error& error) {
    return hvd::Error(error.code(), who() + ": " + error.what());
  }
  return std::nullopt;
}

std::unique_ptr<NcclCommunicator> NcclCommunicator::adopt(nccl::Comm* slot, int rank,
                                                          const std::vector<int>& members,
                                                          const std::string& what,
                                                          Milliseconds timeout) {
  std::vector<int> names;
  names.reserve(members.size());
  for (const int member : members) names.push_back(names_[static_cast<std::size_t>(member)]);
  auto child = std::make_unique<NcclCommunicator>(parts_, rank, static_cast<int>(members.size()),
                                                  std::move(names));
  child->handle_->set(*slot);
  child->settle(what, steady_clock::now() + timeout, timeout);
  return child;
}

bool NcclCommunicator::may_split() {
  const MutexLock lock(mutex_);
  return !is_alone() && api().comm_split != nullptr && !failure_ && captured_count_ == 0;
}

std::unique_ptr<NcclCommunicator> NcclCommunicator::split(const std::vector<int>& members,
                                                          Milliseconds timeout) {
  if (members.size() == 1) {
    throw_if_failed();
    if (members.front() != rank_) return nullptr;
    return alone();
  }
  if (api().comm_split == nullptr)
    throw hvd::Error(hvd::ErrorCode::unavailable,
                     "NCCL " + nccl_version_text(parts_.nccl->version) + " has no ncclCommSplit");
  const std::string what = "NCCL's communicator of a process set";
  const TimePoint deadline = steady_clock::now() + timeout;
  const CurrentDevice current(*parts_.device);
  throw_if_failed();
  const auto mine = std::find(members.begin(), members.end(), rank_);
  const bool member = mine != members.end();
  Slot slot;
  nccl::Result result = nccl::success;
  {
    const NcclHandle::Use use(*handle_, kCallPatience);
    if (use.comm() == nullptr) no_communicator(what);
    result =
        api().comm_split(use.comm(), member ? 0 : nccl::kSplitNoColor, rank_, slot.get(), nullptr);
  }
  if (result != nccl::success && result != nccl::in_progress) fail(result, nullptr, what);
  settle(what, deadline, timeout);
  slot.done();
  if (!member) return nullptr;
  return adopt(slot.get(), static_cast<int>(mine - members.begin()), members, what, timeout);
}

std::unique_ptr<NcclCommunicator> NcclCommunicator::alone() const {
  return std::make_unique<NcclCommunicator>(
      parts_, 0, 1, std::vector<int>{names_[static_cast<std::size_t>(rank_)]});
}

void NcclCommunicator::revoke(const hvd::Error& reason, Milliseconds timeout) {
  if (is_alone()) return void(set_failure(reason));
  if (api().comm_revoke == nullptr)
    throw hvd::Error(hvd::ErrorCode::unavailable,
                     "NCCL " + nccl_version_text(parts_.nccl->version) + " has no ncclCommRevoke");
  const TimePoint deadline = steady_clock::now() + timeout;
  const CurrentDevice current(*parts_.device);
  set_failure(reason);
  nccl::Result result = nccl::success;
  {
    const NcclHandle::Use use(*handle_, kCallPatience);
    if (use.comm() == nullptr) no_communicator("a revocation");
    result = api().comm_revoke(use.comm(), nccl::kRevokeDefault);
  }
  if (result != nccl::success && result != nccl::in_progress) fail(result, nullptr, "a revocation");
  settle("a revocation", deadline, timeout, true);
  revoked_ = true;
}

std::unique_ptr<NcclCommunicator> NcclCommunicator::shrink(std::vector<int> gone,
                                                           Milliseconds timeout) {
  if (static_cast<std::size_t>(size_) == gone.size() + 1) {
    // Nobody is left to make one with; what is queued with the others ends all the same.
    abort(failure().value_or(
        hvd::Error(hvd::ErrorCode::peer_lost, "the communicator of " + who() + " has shrunk")));
    return alone();
  }
  if (api().comm_shrink == nullptr)
    throw hvd::Error(hvd::ErrorCode::unavailable,
                     "NCCL " + nccl_version_text(parts_.nccl->version) + " has no ncclCommShrink");
  const std::string what = "NCCL's communicator of the ranks that are left";
  const TimePoint deadline = steady_clock::now() + timeout;
  const CurrentDevice current(*parts_.device);
  std::sort(gone.begin(), gone.end());
  std::vector<int> left;
  for (int rank = 0; rank < size_; ++rank)
    if (!std::binary_search(gone.begin(), gone.end(), rank)) left.push_back(rank);
  Slot slot;
  nccl::Result result = nccl::success;
  {
    const NcclHandle::Use use(*handle_, kCallPatience);
    if (use.comm() == nullptr) no_communicator(what);
    // A revoked communicator has nothing left to stop.
    result = api().comm_shrink(use.comm(), gone.data(), static_cast<int>(gone.size()), slot.get(),
                               nullptr, revoked_ ? 0 : nccl::kShrinkAbort);
  }
  if (result != nccl::success && result != nccl::in_progress) fail(result, nullptr, what);
  settle(what, deadline, timeout, true);
  slot.done();
  const auto mine = std::find(left.begin(), left.end(), rank_);
  return adopt(slot.get(), static_cast<int>(mine - left.begin()), left, what, timeout);
}

}  // namespace hvdrun
