#include "worker/hvd/engine/operation_check.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "worker/hvd/gpu/nccl_plan.h"

namespace hvdrun {
namespace {

[[noreturn]] void invalid(const Operation& operation, const std::string& what) {
  throw hvd::Error(hvd::ErrorCode::invalid_argument,
                   std::string(name_of(operation.kind)) + ": " + what);
}

bool is_floating_point(hvd::DataType type) {
  return type == hvd::DataType::float16 || type == hvd::DataType::bfloat16 ||
         type == hvd::DataType::float32 || type == hvd::DataType::float64;
}

// All of them together, each of them at most what memory can hold.
std::size_t total(const Operation& operation, const std::vector<std::size_t>& counts,
                  std::size_t ranks, std::size_t width) {
  // The sum of all inputs must be addressable too, whether or not the output holds it.
  constexpr auto kMaxBytes = static_cast<std::size_t>(std::numeric_limits<std::ptrdiff_t>::max());
  const std::size_t limit = kMaxBytes / width / ranks;
  std::size_t sum = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const std::size_t count = counts.empty() ? operation.count : counts[rank];
    if (count > limit - sum)
      invalid(operation, std::to_string(count) + " elements are more than memory can hold");
    sum += count;
  }
  return sum;
}

void check_reduction(const Operation& operation, std::size_t ranks) {
  const auto op = operation.reduction.op;
  if (op < hvd::ReduceOp::average || op > hvd::ReduceOp::adasum)
    invalid(operation, "unknown reduce operation " + std::to_string(static_cast<unsigned>(op)));
  const bool scaled = operation.reduction.prescale != 1 || operation.reduction.postscale != 1;
  if (operation.reduction.type == hvd::DataType::boolean) {
    if (op == hvd::ReduceOp::average) invalid(operation, "there is no average of bool");
    if (scaled) invalid(operation, "bool cannot be scaled");
  }
  if (op == hvd::ReduceOp::adasum) {
    if (operation.kind != OpKind::allreduce) invalid(operation, "adasum is for allreduce only");
    if (!is_floating_point(operation.reduction.type))
      invalid(operation, "adasum is for float16, bfloat16, float32 and float64 only");
  }
  if (std::isnan(operation.reduction.prescale) || std::isnan(operation.reduction.postscale))
    invalid(operation, "a scale factor is not a number");
  // Throws for what NCCL cannot do, which one rank does without.
  if (operation.device && op != hvd::ReduceOp::adasum && ranks > 1)
    plan_reduction(operation.reduction, static_cast<int>(ranks));
}

// In place is the same buffer (for an allgather: the input at its place in the output); any other
// overlap would be read after it was written.
void check_buffers(const Operation& operation, std::size_t rank, std::size_t ranks,
                   std::size_t width) {
  if (operation.kind == OpKind::broadcast) {
    if (operation.count > 0 && operation.output == nullptr)
      invalid(operation, "the buffer is null");
    return;
  }
  const auto& counts = operation.counts;
  const auto& receive = operation.receive_counts;
  const auto count_of = [&](const std::vector<std::size_t>& list, std::size_t at) {
    return list.empty() ? operation.count : list[at];
  };
  const auto sum = [&](const std::vector<std::size_t>& list, std::size_t end) {
    std::size_t all = 0;
    for (std::size_t at = 0; at < end; ++at) all += count_of(list, at);
    return all;
  };
  std::size_t in = operation.count;
  std::size_t out = operation.count;
  std::size_t own_place = 0;  // of the input, in the output
  switch (operation.kind) {
    case OpKind::allgather:
      in = count_of(counts, rank);
      out = sum(counts, ranks);
      own_place = sum(counts, rank) * width;
      break;
    case OpKind::reducescatter:
      in = sum(counts, ranks);
      out = count_of(counts, rank);
      break;
    case OpKind::alltoall:
      in = sum(counts, ranks);
      out = sum(receive, ranks);
      break;
    default:
      break;
  }
  if (in > 0 && operation.input == nullptr) invalid(operation, "the input buffer is null");
  if (out > 0 && operation.output == nullptr) invalid(operation, "the output buffer is null");
  if (in == 0 || out == 0) return;
  const auto from = reinterpret_cast<std::uintptr_t>(operation.input);
  const auto to = reinterpret_cast<std::uintptr_t>(operation.output);
  if (from + in * width <= to || to + out * width <= from) return;
  const bool may_be_in_place = operation.kind != OpKind::alltoall || counts.empty();
  if (may_be_in_place && from == to + own_place) return;
  invalid(operation, !may_be_in_place ? "with counts of its own for each rank it cannot be in place"
                     : operation.kind == OpKind::allgather
                         ? "input and output overlap, and the input is not at this rank's place in "
                           "the output"
                         : "input and output overlap, but are not the same buffer");
}

void check_parts(const Operation& operation, std::size_t width) {
  std::vector<std::pair<std::uintptr_t, std::uintptr_t>> outputs;
  for (const BufferPart& buffer : operation.parts) {
    if (buffer.count == 0) continue;
    if (buffer.input == nullptr) invalid(operation, "an input buffer is null");
    if (buffer.output == nullptr) invalid(operation, "an output buffer is null");
    const auto to = reinterpret_cast<std::uintptr_t>(buffer.output);
    outputs.emplace_back(to, to + buffer.count * width);
  }
  std::sort(outputs.begin(), outputs.end());
  for (std::size_t i = 1; i < outputs.size(); ++i)
    if (outputs[i].first < outputs[i - 1].second) invalid(operation, "two output buffers overlap");
  for (const BufferPart& buffer : operation.parts) {
    if (buffer.count == 0 || buffer.input == buffer.output) continue;
    const auto from = reinterpret_cast<std::uintptr_t>(buffer.input);
    // The first output that ends behind the input's begin.
    const auto next =
        std::upper_bound(outputs.begin(), outputs.end(), from,
                         [](std::uintptr_t at, const auto& output) { return at < output.second; });
    if (next != outputs.end() && next->first < from + buffer.count * width)
      invalid(operation, "an input overlaps an output, but is not the same buffer");
  }
}

}  // namespace

void check(const Operation& operation, const Communicator& communicator) {
  if (operation.kind == OpKind::barrier) return;
  const std::size_t width = element_size(operation.reduction.type);
  if (width == 0)
    invalid(operation,
            "unknown data type " + std::to_string(static_cast<unsigned>(operation.reduction.type)));
  const auto ranks = static_cast<std::size_t>(communicator.size());
  if (!operation.parts.empty()) {
    std::size_t sum = 0;
    for (const BufferPart& buffer : operation.parts) {
      Operation part;
      part.kind = operation.kind;
      part.count = buffer.count;
      total(part, {}, ranks, width);
      sum += buffer.count;
      part.count = sum;
      total(part, {}, ranks, width);
    }
    check_reduction(operation, ranks);
    check_parts(operation, width);
    return;
  }
  total(operation, operation.counts, ranks, width);
  total(operation, operation.receive_counts, ranks, width);
  if (operation.kind == OpKind::allreduce || operation.kind == OpKind::reducescatter)
    check_reduction(operation, ranks);
  if (operation.kind == OpKind::broadcast &&
      (operation.root < 0 || operation.root >= communicator.size())) {
    invalid(operation, "root " + std::to_string(operation.root) + " is not a rank of 0 to " +
                           std::to_string(communicator.size() - 1));
  }
  check_buffers(operation, static_cast<std::size_t>(communicator.rank()), ranks, width);
}

}  // namespace hvdrun
