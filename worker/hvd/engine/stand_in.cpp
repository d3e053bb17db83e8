#include "worker/hvd/engine/stand_in.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "worker/hvd/engine/device_use.h"

namespace hvdrun {
namespace {

// The part that has a fixed size.
struct Fixed {
  std::uint64_t count = 0;
  double prescale = 1;
  double postscale = 1;
  std::int32_t root = 0;
  OpKind kind = OpKind::barrier;
  hvd::DataType type = hvd::DataType::float32;
  hvd::ReduceOp op = hvd::ReduceOp::sum;
  std::uint8_t on_gpu = 0;
  std::uint8_t captured = 0;
  std::uint64_t counts = 0;  // that follow
  std::uint64_t receive_counts = 0;
  std::uint64_t parts = 0;
};

void put_counts(std::string& text, const std::vector<std::size_t>& counts) {
  text.append(reinterpret_cast<const char*>(counts.data()), counts.size() * sizeof(std::size_t));
}

[[noreturn]] void damaged() {
  throw hvd::Error(hvd::ErrorCode::internal, "a rank's description of an operation is damaged");
}

std::vector<std::size_t> take_counts(std::string_view& bytes, std::uint64_t count) {
  if (count > bytes.size() / sizeof(std::size_t)) damaged();
  std::vector<std::size_t> counts(count);
  if (count > 0) std::memcpy(counts.data(), bytes.data(), count * sizeof(std::size_t));
  bytes.remove_prefix(count * sizeof(std::size_t));
  return counts;
}

template <class T>
void fill_with(std::vector<std::byte>& memory, T value) {
  for (std::size_t at = 0; at + sizeof value <= memory.size(); at += sizeof value)
    std::memcpy(memory.data() + at, &value, sizeof value);
}

template <class T>
T extreme(bool largest) {
  using Limits = std::numeric_limits<T>;
  if constexpr (Limits::has_infinity)
    return largest ? Limits::infinity() : -Limits::infinity();
  else
    return largest ? Limits::max() : Limits::lowest();
}

enum class Neutral : std::uint8_t { zero, one, largest, smallest };

Neutral neutral_of(const Reduction& reduction) {
  switch (reduction.op) {
    case hvd::ReduceOp::min:
      return Neutral::largest;
    case hvd::ReduceOp::max:
      return Neutral::smallest;
    case hvd::ReduceOp::product:
      return Neutral::one;
    default:
      return Neutral::zero;
  }
}

bool is_float_type(hvd::DataType type) {
  return type == hvd::DataType::float16 || type == hvd::DataType::bfloat16 ||
         type == hvd::DataType::float32 || type == hvd::DataType::float64;
}

// A sum of floating-point numbers does not see -0, or 0 where the prescale factor turns the sign: a
// 0 would make 0 of a sum of -0.
void fill_minus_zero(std::vector<std::byte>& memory, std::size_t width) {
  constexpr std::byte kSign{0x80};
  for (std::size_t at = width - 1; at < memory.size(); at += width) memory[at] = kSign;
}

template <class T>
void fill_neutral(std::vector<std::byte>& memory, Neutral neutral) {
  if (neutral == Neutral::zero) return;  // it is
  fill_with(memory, neutral == Neutral::one ? T{1} : extreme<T>(neutral == Neutral::largest));
}

// With the bits of one and infinity.
void fill_half(std::vector<std::byte>& memory, Neutral neutral, std::uint16_t one,
               std::uint16_t infinity) {
  constexpr std::uint16_t kMinus = 0x8000;
  if (neutral == Neutral::zero) return;
  fill_with(memory, neutral == Neutral::one       ? one
                    : neutral == Neutral::largest ? infinity
                                                  : static_cast<std::uint16_t>(infinity | kMinus));
}

void fill_neutral(std::vector<std::byte>& memory, const Reduction& reduction) {
  const Neutral neutral = neutral_of(reduction);
  if (neutral == Neutral::zero && is_float_type(reduction.type)) {
    if (!std::signbit(reduction.prescale)) fill_minus_zero(memory, element_size(reduction.type));
    return;
  }
  switch (reduction.type) {
    case hvd::DataType::int32:
      return fill_neutral<std::int32_t>(memory, neutral);
    case hvd::DataType::int64:
      return fill_neutral<std::int64_t>(memory, neutral);
    case hvd::DataType::float32:
      return fill_neutral<float>(memory, neutral);
    case hvd::DataType::float64:
      return fill_neutral<double>(memory, neutral);
    case hvd::DataType::uint8:
      return fill_neutral<std::uint8_t>(memory, neutral);
    case hvd::DataType::int8:
      return fill_neutral<std::int8_t>(memory, neutral);
    case hvd::DataType::uint16:
      return fill_neutral<std::uint16_t>(memory, neutral);
    case hvd::DataType::int16:
      return fill_neutral<std::int16_t>(memory, neutral);
    case hvd::DataType::float16:
      return fill_half(memory, neutral, 0x3c00, 0x7c00);
    case hvd::DataType::bfloat16:
      return fill_half(memory, neutral, 0x3f80, 0x7f80);
    case hvd::DataType::boolean:
      return fill_with(memory, static_cast<std::uint8_t>(
                                   neutral == Neutral::one || neutral == Neutral::largest ? 1 : 0));
  }
}

}  // namespace

std::string encode_operations(const std::vector<const Operation*>& operations) {
  std::string text;
  for (const Operation* const operation : operations) {
    Fixed fixed;
    fixed.count = elements_of(*operation);
    fixed.prescale = operation->reduction.prescale;
    fixed.postscale = operation->reduction.postscale;
    fixed.root = operation->root;
    fixed.kind = operation->kind;
    fixed.type = operation->reduction.type;
    fixed.op = operation->reduction.op;
    fixed.on_gpu = operation->device ? 1 : 0;
    fixed.captured = operation->device && operation->device->captured ? 1 : 0;
    fixed.counts = operation->counts.size();
    fixed.receive_counts = operation->receive_counts.size();
    fixed.parts = operation->parts.size();
    text.append(reinterpret_cast<const char*>(&fixed), sizeof fixed);
    put_counts(text, operation->counts);
    put_counts(text, operation->receive_counts);
    std::vector<std::size_t> parts;
    for (const BufferPart& part : operation->parts) parts.push_back(part.count);
    put_counts(text, parts);
  }
  return text;
}

std::vector<Operation> decode_operations(std::string_view bytes) {
  std::vector<Operation> operations;
  while (!bytes.empty()) {
    Fixed fixed;
    if (bytes.size() < sizeof fixed) damaged();
    std::memcpy(&fixed, bytes.data(), sizeof fixed);
    bytes.remove_prefix(sizeof fixed);
    Operation operation;
    operation.kind = fixed.kind;
    operation.count = fixed.count;
    operation.reduction = {fixed.type, fixed.op, fixed.prescale, fixed.postscale};
    operation.root = fixed.root;
    operation.counts = take_counts(bytes, fixed.counts);
    operation.receive_counts = take_counts(bytes, fixed.receive_counts);
    for (const std::size_t count : take_counts(bytes, fixed.parts))
      operation.parts.push_back({nullptr, nullptr, count});
    if (fixed.on_gpu != 0) operation.device = std::make_shared<DeviceUse>();
    if (operation.device) operation.device->captured = fixed.captured != 0;
    operations.push_back(std::move(operation));
  }
  return operations;
}

std::string stand_in_obstacle(const Operation& operation, const std::vector<bool>& joined) {
  const bool reduces =
      operation.kind == OpKind::allreduce || operation.kind == OpKind::reducescatter;
  if (operation.kind == OpKind::broadcast && joined[static_cast<std::size_t>(operation.root)])
    return "its root, rank " + std::to_string(operation.root) + ", has joined";
  if (operation.device && operation.kind == OpKind::barrier) {
    const auto rank = std::find(joined.begin(), joined.end(), true) - joined.begin();
    return "rank " + std::to_string(rank) + " has joined, and all ranks make a process set";
  }
  if (operation.device && operation.device->captured) {
    const auto rank = std::find(joined.begin(), joined.end(), true) - joined.begin();
    return "rank " + std::to_string(rank) +
           " has joined, and a graph would wait for it whenever it runs";
  }
  const double factor = operation.reduction.prescale;
  const hvd::DataType type = operation.reduction.type;
  // The others' factor has the width in which it is applied.
  const bool zero_stays =
      !is_float_type(type) || std::isfinite(type == hvd::DataType::float64
                                                ? factor
                                                : static_cast<double>(static_cast<float>(factor)));
  if (reduces && factor != 1 && (neutral_of(operation.reduction) != Neutral::zero || !zero_stays)) {
    const auto rank = std::find(joined.begin(), joined.end(), true) - joined.begin();
    return "rank " + std::to_string(rank) +
           " has joined, and there is no element that changes nothing after a prescale factor";
  }
  return {};
}

std::unique_ptr<StandIn> make_stand_in(const std::vector<const Operation*>& views,
                                       std::size_t rank) {
  const std::size_t ranks = views.size();
  const auto leader = std::find_if(views.begin(), views.end(),
                                   [](const Operation* view) { return view != nullptr; });
  const Operation& model = **leader;
  auto joined = std::make_unique<StandIn>();
  Operation& own = joined->operation;
  own = model;
  if (model.device) own.device = std::make_shared<DeviceUse>();
  if (model.kind == OpKind::barrier) return joined;
  const std::size_t width = element_size(model.reduction.type);
  if (width == 0 || (!model.counts.empty() && model.counts.size() != ranks)) damaged();
  std::size_t in = model.count;
  std::size_t out = model.count;
  const auto sum = [&](const std::vector<std::size_t>& counts) {
    return counts.empty() ? ranks * model.count : sum_of(counts.data(), counts.size());
  };
  switch (model.kind) {
    case OpKind::allgather:
      out = sum(model.counts);
      if (!model.counts.empty()) in = model.counts[rank];
      break;
    case OpKind::reducescatter:
      in = sum(model.counts);
      if (!model.counts.empty()) out = model.counts[rank];
      break;
    case OpKind::alltoall:
      if (model.counts.empty()) {
        in = out = sum(model.counts);
        break;
      }
      // It sends each rank as much as that one expects. Among those that have joined nothing moves.
      own.counts.assign(ranks, 0);
      own.receive_counts.assign(ranks, 0);
      for (std::size_t other = 0; other < ranks; ++other) {
        if (views[other] == nullptr) continue;
        if (views[other]->counts.size() != ranks || views[other]->receive_counts.size() != ranks)
          damaged();
        own.counts[other] = views[other]->receive_counts[rank];
        own.receive_counts[other] = views[other]->counts[rank];
      }
      in = sum(own.counts);
      out = sum(own.receive_counts);
      break;
    default:
      break;
  }
  joined->input.resize(std::max<std::size_t>(in * width, 1));
  joined->output.resize(std::max<std::size_t>(out * width, 1));
  if (model.kind == OpKind::allreduce || model.kind == OpKind::reducescatter)
    fill_neutral(joined->input, model.reduction);
  own.input = joined->input.data();
  own.output = joined->output.data();
  // In the same pieces: what is many buffers elsewhere moves in another way than what is one.
  std::size_t begin = 0;
  for (BufferPart& part : own.parts) {
    if (part.count > own.count - begin) damaged();
    part.input = joined->input.data() + begin * width;
    part.output = joined->output.data() + begin * width;
    begin += part.count;
  }
  return joined;
}

}  // namespace hvdrun
