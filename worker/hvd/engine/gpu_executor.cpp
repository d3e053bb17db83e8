#include "worker/hvd/engine/gpu_executor.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <thread>
#include <utility>

#include "worker/hvd/engine/device_use.h"
#include "worker/hvd/engine/fingerprint.h"
#include "worker/hvd/gpu/gpu_error.h"
#include "worker/hvd/gpu/lone_plan.h"

namespace hvdrun {
namespace {

using hvd::ErrorCode;

// The others may leave later: their end of NCCL's communicator is waited for so long.
constexpr std::chrono::seconds kClosePatience{10};

std::vector<std::size_t> counts_of(const Operation& operation, int ranks) {
  if (!operation.counts.empty()) return operation.counts;
  return std::vector<std::size_t>(static_cast<std::size_t>(ranks), operation.count);
}

void add_parts(const Operation& operation, std::vector<BufferPart>& parts) {
  if (operation.parts.empty())
    parts.push_back({operation.input, operation.output, operation.count});
  else
    parts.insert(parts.end(), operation.parts.begin(), operation.parts.end());
}

}  // namespace

GpuExecutor::GpuExecutor(std::shared_ptr<RankGpu> gpu, Communicator& host, std::vector<int> names,
                         Milliseconds connect_timeout, Milliseconds leave_timeout,
                         std::optional<nccl::UniqueId> id)
    : gpu_(std::move(gpu)),
      host_(host),
      names_(std::move(names)),
      connect_timeout_(connect_timeout),
      leave_timeout_(leave_timeout),
      id_(id),
      events_(std::make_shared<GpuEvents>(gpu_->device())) {}

GpuExecutor::~GpuExecutor() { close(); }

std::string GpuExecutor::rank_text(std::size_t rank) const {
  return "rank " + std::to_string(rank < names_.size() ? names_[rank] : static_cast<int>(rank));
}

void GpuExecutor::mark(DeviceUse& use) const {
  use.before = std::make_unique<const GpuMark>(events_, use.stream);
  use.captured = use.before->captured();
}

void GpuExecutor::order(const DeviceUse& use) const {
  if (communicator_ && !use.split) communicator_->lead(use.ticket, use.stream);
}

bool GpuExecutor::has_ended(const DeviceUse& use) const {
  try {
    if (use.before) return use.before->has_come();  // nothing was queued behind it
    return !communicator_ || communicator_->has_ended(use.ticket);
  } catch (const hvd::Error&) {
    return true;
  }
}

void GpuExecutor::perform(const std::vector<const Operation*>& operations,
                          const CallOptions& options, std::shared_ptr<GpuSpan> span) {
  meet(*operations.front(), options);
  CallOptions step = options;
  step.hooks = nullptr;
  if (operations.front()->device->split) return split(*operations.front()->device->split, step);
  const bool captured = operations.front()->device->captured;
  if (!communicator_ && !failure_) {
    if (captured)
      throw hvd::Error(ErrorCode::invalid_argument,
                       "no graph can be captured before the ranks' first operation on their GPUs: "
                       "run one before");
    connect(step);
  }
  if (failure_) throw hvd::Error(*failure_);
  // On the caller's stream its results are there before and after. Who asks for its end asks for
  // that of what was before it, which a graph does not tell. A timeline wants to see it run.
  if (!span && is_nothing(operations)) {
    for (const Operation* const operation : operations)
      if (captured) operation->device->before.reset();
    return;
  }
  std::vector<cuda::Event> before;
  for (const Operation* const operation : operations)
    if (operation->device->before) before.push_back(operation->device->before->event());
  GpuTicket ticket = 0;
  try {
    ticket = queue(operations, {nullptr, options.timeout, &before, captured, std::move(span)});
  } catch (const hvd::Error& error) {
    // Else every rank has found the same, before it queued anything.
    if (communicator_->has_failed()) break_off(error);
    throw;
  }
  if (ticket != 0 && !captured)
    last_ = ticket;  // what moves nothing has none, and follows the rest
  patience_ = options.timeout;
  for (const Operation* const operation : operations) {
    operation->device->ticket = ticket;
    operation->device->before.reset();
  }
}

// Every rank means the same when this returns.
void GpuExecutor::meet(const Operation& operation, const CallOptions& options) {
  if (operation.kind == OpKind::alltoall && !operation.counts.empty())
    agree_on_counts(operation, options);
  else if (operation.varying_counts)
    compare_counts(operation, options);
  else
    host_.barrier(options);
}

// Those that are no part of what the barrier compares.
void GpuExecutor::compare_counts(const Operation& operation, const CallOptions& options) {
  Fingerprint print;
  for (const std::size_t count : operation.counts) print.add(std::uint64_t{count});
  const std::uint64_t own = print.value();
  const auto ranks = static_cast<std::size_t>(host_.size());
  const std::vector<std::size_t> ones(ranks, 1);
  std::vector<std::uint64_t> all(ranks);
  host_.allgather(&own, all.data(), ones.data(), hvd::DataType::int64, options);
  for (std::size_t rank = 1; rank < ranks; ++rank)
    if (all[rank] != all[0])
      throw hvd::Error(ErrorCode::mismatch,
                       rank_text(0) + " and " + rank_text(rank) + " have other counts");
}

// In an alltoall each rank has counts of its own, and NCCL hangs where they do not fit.
void GpuExecutor::agree_on_counts(const Operation& operation, const CallOptions& options) {
  const auto ranks = static_cast<std::size_t>(host_.size());
  const std::vector<std::size_t> ones(ranks, 1);
  const std::vector<std::uint64_t> send(operation.counts.begin(), operation.counts.end());
  std::vector<std::uint64_t> receive(ranks);
  host_.alltoall(send.data(), ones.data(), receive.data(), ones.data(), hvd::DataType::int64,
                 options);
  CallOptions step = options;
  step.hooks = nullptr;
  // The largest is told to all: which pair it is, counted from 1.
  const auto own = static_cast<std::size_t>(host_.rank());
  std::int64_t bad = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank)
    if (receive[rank] != operation.receive_counts[rank])
      bad = static_cast<std::int64_t>(own * ranks + rank + 1);
  host_.allreduce(&bad, &bad, 1, {hvd::DataType::int64, hvd::ReduceOp::max}, step);
  if (bad == 0) return;
  const std::size_t sender = static_cast<std::size_t>(bad - 1) % ranks;
  const std::size_t receiver = static_cast<std::size_t>(bad - 1) / ranks;
  std::array<std::uint64_t, 2> pair{receive[sender], operation.receive_counts[sender]};
  host_.broadcast(pair.data(), pair.size(), hvd::DataType::int64, static_cast<int>(receiver), step);
  throw hvd::Error(ErrorCode::mismatch, counts_differ(sender, pair[0], receiver, pair[1]));
}

// One rank alone, and the results stand where the inputs do.
bool GpuExecutor::is_nothing(const std::vector<const Operation*>& operations) const {
  if (host_.size() > 1) return false;
  const auto stays = [](const BufferPart& part) { return part.input == part.output; };
  return std::all_of(operations.begin(), operations.end(), [&](const Operation* const operation) {
    const bool reduces =
        operation->kind == OpKind::allreduce || operation->kind == OpKind::reducescatter;
    if (reduces && plan_lone_reduction(operation->reduction).needs_kernels()) return false;
    std::vector<BufferPart> parts;
    add_parts(*operation, parts);
    return std::all_of(parts.begin(), parts.end(), stays);
  });
}

GpuTicket GpuExecutor::queue(const std::vector<const Operation*>& operations, const GpuCall& call) {
  const Operation& operation = *operations.front();
  const Reduction& how = operation.reduction;
  const int ranks = host_.size();
  switch (operation.kind) {
    case OpKind::barrier:
      break;
    case OpKind::allreduce: {
      std::vector<BufferPart> parts;
      for (const Operation* const one : operations) add_parts(*one, parts);
      return communicator_->allreduce(parts, how, call);
    }
    case OpKind::broadcast:
      return communicator_->broadcast(operation.output, operation.count, how.type, operation.root,
                                      call);
    case OpKind::allgather:
      return communicator_->allgather(operation.input, operation.output,
                                      counts_of(operation, ranks).data(), how.type, call);
    case OpKind::reducescatter:
      return communicator_->reducescatter(operation.input, operation.output,
                                          counts_of(operation, ranks).data(), how, call);
    case OpKind::alltoall: {
      const std::vector<std::size_t> send = counts_of(operation, ranks);
      const auto& receive = operation.receive_counts.empty() ? send : operation.receive_counts;
      return communicator_->alltoall(operation.input, send.data(), operation.output, receive.data(),
                                     how.type, call);
    }
  }
  return 0;
}

// Others may have queued what this rank has not, and would wait for it on their GPUs.
void GpuExecutor::break_off(const hvd::Error& error) {
  host_.abort(error);
  try {
    host_.await_others(Milliseconds(0));  // tells the others, and throws
  } catch (const hvd::Error&) {
  }
  throw hvd::Error(error);
}

void GpuExecutor::close() noexcept {
  if (!communicator_) return;
  Milliseconds patience = patience_;
  try {
    host_.await_others(Milliseconds(0));
  } catch (const hvd::Error&) {
    patience = std::min(patience, leave_timeout_);
  }
  try {
    communicator_->wait(last_, patience);
  } catch (const hvd::Error&) {
    // It has been aborted; those who ask for their operations are told why.
  }
  gpu_->watch().remove(*communicator_);
  communicator_->close(kClosePatience);
  communicator_.reset();
}

// Memory of the GPU for a rank that has joined.
class GpuExecutor::Loan {
 public:
  Loan(const GpuExecutor& executor, std::shared_ptr<DeviceUse> use)
      : executor_(executor), use_(std::move(use)) {}
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;
  ~Loan() {
    const cuda::Api& api = executor_.gpu_->device().api();
    try {
      if (executor_.communicator_) executor_.communicator_->wait(use_->ticket, executor_.patience_);
    } catch (const hvd::Error&) {
      // It has failed. What the GPU still does with the memory, memory_free waits for.
    }
    wait_for_copy();
    const DeviceToFree current(executor_.gpu_->device());
    if (!current) return;
    for (const cuda::DevicePointer one : memory_) api.memory_free(one);
  }

  // The copies on the stream read memory of the host, whether or not the operation, which comes
  // after them, is ever queued.
  void copies_on(cuda::Stream stream) {
    copied_ = std::make_unique<const GpuMark>(executor_.events_, stream);
  }

  void* take(std::size_t bytes) {
    const GpuDevice& device = executor_.gpu_->device();
    cuda::DevicePointer made = 0;
    check_cuda(device.api(), device.api().memory_alloc(&made, std::max<std::size_t>(bytes, 1)),
               device.words() + ": cuMemAlloc of " + std::to_string(bytes) + " bytes");
    memory_.push_back(made);
    // NOLINTNEXTLINE(performance-no-int-to-ptr): CUDA has its addresses as numbers
    return reinterpret_cast<void*>(made);
  }

 private:
  void wait_for_copy() const noexcept {
    if (!copied_) return;
    const GpuDevice& device = executor_.gpu_->device();
    const auto deadline = std::chrono::steady_clock::now() +
                          std::max(executor_.patience_, executor_.connect_timeout_);
    try {
      const CurrentDevice current(device);
      while (device.api().event_query(copied_->event()) == cuda::kNotReady &&
             std::chrono::steady_clock::now() < deadline)
        std::this_thread::sleep_for(std::chrono::microseconds(100));
    } catch (const hvd::Error&) {
      // A device that does not take calls any more copies nothing.
    }
  }

  const GpuExecutor& executor_;
  const std::shared_ptr<DeviceUse> use_;
  std::unique_ptr<const GpuMark> copied_;
  std::vector<cuda::DevicePointer> memory_;
};

std::shared_ptr<void> GpuExecutor::lend(Operation& operation, const std::vector<std::byte>& input,
                                        std::size_t output_bytes) {
  try {
    return lend_now(operation, input, output_bytes);
  } catch (const hvd::Error& error) {
    break_off(error);  // the others count on this rank
  }
}

std::shared_ptr<void> GpuExecutor::lend_now(Operation& operation,
                                            const std::vector<std::byte>& input,
                                            std::size_t output_bytes) {
  const GpuDevice& device = gpu_->device();
  const CurrentDevice current(device);
  auto loan = std::make_shared<Loan>(*this, operation.device);
  auto* const from = static_cast<std::byte*>(loan->take(input.size()));
  auto* const to = static_cast<std::byte*>(loan->take(output_bytes));
  // On the default stream, which the operation then follows.
  check_cuda(device.api(),
             device.api().copy_to_device(cuda::device_pointer(from), input.data(), input.size(),
                                         operation.device->stream),
             device.words() + ": cuMemcpyHtoDAsync");
  loan->copies_on(operation.device->stream);
  mark(*operation.device);
  operation.input = from;
  operation.output = to;
  const std::size_t width = element_size(operation.reduction.type);
  std::size_t done = 0;
  for (BufferPart& part : operation.parts) {
    part.input = from + done;
    part.output = to + done;
    done += part.count * width;
  }
  return loan;
}

}  // namespace hvdrun
