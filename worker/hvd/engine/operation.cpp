#include "worker/hvd/engine/operation.h"

#include <cstdint>
#include <cstdio>
#include <string>

#include "worker/hvd/engine/device_use.h"
#include "worker/hvd/engine/fingerprint.h"

namespace hvdrun {

const char* name_of(OpKind kind) {
  switch (kind) {
    case OpKind::barrier:
      return "barrier";
    case OpKind::allreduce:
      return "allreduce";
    case OpKind::broadcast:
      return "broadcast";
    case OpKind::allgather:
      return "allgather";
    case OpKind::reducescatter:
      return "reducescatter";
    case OpKind::alltoall:
      return "alltoall";
  }
  return "operation";
}

namespace {

bool is_reduction(OpKind kind) {
  return kind == OpKind::allreduce || kind == OpKind::reducescatter;
}

std::string number_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (const std::int64_t size : shape) {
    if (size == hvd::kNextShape) {
      text += "] [";
      continue;
    }
    if (text.back() != '[') text += ", ";
    text += std::to_string(size);
  }
  return text + "]";
}

}  // namespace

std::size_t elements_of(const Operation& operation) {
  if (operation.parts.empty()) return operation.count;
  std::size_t sum = 0;
  for (const BufferPart& buffer : operation.parts) sum += buffer.count;
  return sum;
}

std::uint64_t fingerprint_of(const Operation& operation) {
  Fingerprint print;
  print.add(static_cast<std::uint64_t>(operation.kind) |
            static_cast<std::uint64_t>(operation.reduction.type) << 8U |
            static_cast<std::uint64_t>(operation.reduction.op) << 16U |
            (operation.device ? std::uint64_t{1} << 24U : 0U) |
            (operation.device && operation.device->captured ? std::uint64_t{1} << 25U : 0U) |
            (operation.varying_counts ? std::uint64_t{1} << 26U : 0U) |
            static_cast<std::uint64_t>(static_cast<unsigned>(operation.root)) << 32U);
  print.add(std::uint64_t{operation.count});
  if (is_reduction(operation.kind) &&
      (operation.reduction.prescale != 1 || operation.reduction.postscale != 1))
    print.add(operation.reduction.prescale).add(operation.reduction.postscale);
  // In an alltoall each rank has counts of its own; that they fit is seen when they are exchanged.
  if (operation.kind == OpKind::alltoall)
    print.add(std::uint64_t{operation.counts.empty() ? 0U : 1U});
  else if (!operation.varying_counts)
    for (const std::size_t count : operation.counts) print.add(std::uint64_t{count});
  for (const BufferPart& buffer : operation.parts) print.add(std::uint64_t{buffer.count});
  for (const std::int64_t size : operation.shape) print.add(static_cast<std::uint64_t>(size));
  return print.value();
}

std::string describe(const Operation& operation) {
  if (!operation.description.empty()) return operation.description;
  if (operation.device && operation.device->split) return "add_process_set(on GPUs)";
  Descriptor what{.count = elements_of(operation), .kind = operation.kind};
  if (operation.kind != OpKind::barrier) what.type = operation.reduction.type;
  if (is_reduction(operation.kind)) what.op = operation.reduction.op;
  if (operation.kind == OpKind::broadcast)
    what.detail =
        static_cast<std::uint32_t>(operation.root_name >= 0 ? operation.root_name : operation.root);
  if (operation.kind == OpKind::alltoall)
    what.count = 0;
  else if (!operation.counts.empty())
    what.count = std::accumulate(operation.counts.begin(), operation.counts.end(), std::size_t{0});
  std::string text = describe(what);
  std::string more;
  if (!operation.shape.empty() && operation.kind != OpKind::barrier)
    more += ", shape " + shape_text(operation.shape);
  if (operation.parts.size() > 1)
    more += ", " + std::to_string(operation.parts.size()) + " tensors";
  if (!operation.counts.empty() && operation.kind != OpKind::alltoall) {
    more += operation.varying_counts ? ", varying counts" : ", counts";
    constexpr std::size_t kShown = 8;
    for (std::size_t i = 0; i < std::min(kShown, operation.counts.size()); ++i)
      more += " " + std::to_string(operation.counts[i]);
    if (operation.counts.size() > kShown) more += " ...";
  }
  if (is_reduction(operation.kind) && operation.reduction.prescale != 1)
    more += ", prescale " + number_text(operation.reduction.prescale);
  if (is_reduction(operation.kind) && operation.reduction.postscale != 1)
    more += ", postscale " + number_text(operation.reduction.postscale);
  if (operation.device) more += operation.device->captured ? ", in a graph" : ", on a GPU";
  text.insert(text.size() - 1, more);
  return text;
}

}  // namespace hvdrun
