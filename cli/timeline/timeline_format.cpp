#include "cli/timeline/timeline_format.h"

#include <algorithm>
#include <utility>

#include "cli/text/json_text.h"
#include "common/base/limits.h"

namespace hvdrun {
namespace {

// More phases inside each other than there are kinds of them make no sense.
constexpr std::size_t kMaxNested = 16;

bool is_phase(TimelinePhase phase) {
  return phase >= TimelinePhase::negotiate && phase <= TimelinePhase::step;
}

bool is_gpu(TimelineMark mark) {
  return mark == TimelineMark::gpu_begin || mark == TimelineMark::gpu_end;
}

bool makes_sense(const TimelineEvents& events) {
  std::uint32_t last = 0;
  for (const std::string& name : events.names)
    if (name.size() > limits::kMaxTimelineName) return false;
  for (const TimelineEvent& event : events.events) {
    if (!is_gpu(event.mark) && event.after_ns < std::exchange(last, event.after_ns)) return false;
    if (event.mark == TimelineMark::cycle) continue;
    if (event.mark != TimelineMark::begin && event.mark != TimelineMark::end && !is_gpu(event.mark))
      return false;
    if (!is_phase(event.phase) || event.name >= events.names.size()) return false;
  }
  return true;
}

// Horovod's names, which its users look for.
std::string name_of(TimelineOp op) {
  switch (op) {
    case TimelineOp::none:
      return "";
    case TimelineOp::allreduce:
      return "ALLREDUCE";
    case TimelineOp::allgather:
      return "ALLGATHER";
    case TimelineOp::broadcast:
      return "BROADCAST";
    case TimelineOp::reducescatter:
      return "REDUCESCATTER";
    case TimelineOp::alltoall:
      return "ALLTOALL";
    case TimelineOp::barrier:
      return "BARRIER";
    case TimelineOp::join:
      return "JOIN";
    case TimelineOp::adasum:
      return "ADASUM";
  }
  return "";  // of a later version
}

std::string name_of(TimelinePhase phase, TimelineOp op) {
  const std::string operation = name_of(op);
  switch (phase) {
    case TimelinePhase::negotiate:
      return operation.empty() ? "NEGOTIATE" : "NEGOTIATE_" + operation;
    case TimelinePhase::queue:
      return "QUEUE";
    case TimelinePhase::copy_in:
      return "MEMCPY_IN_FUSION_BUFFER";
    case TimelinePhase::reduce:
      return operation.empty() ? "REDUCE" : operation;
    case TimelinePhase::copy_out:
      return "MEMCPY_OUT_FUSION_BUFFER";
    case TimelinePhase::data:
      return "DATA";
    case TimelinePhase::forward:
      return "FORWARD";
    case TimelinePhase::backward:
      return "BACKWARD";
    case TimelinePhase::synchronize:
      return "SYNCHRONIZE";
    case TimelinePhase::step:
      return "STEP";
  }
  return "";
}

// Microseconds, as trace events have them.
std::string to_us(std::uint64_t ns) {
  const std::string rest = std::to_string(ns % 1000);
  return std::to_string(ns / 1000) + "." + std::string(3 - rest.size(), '0') + rest;
}

std::uint32_t thread_of(std::uint32_t rank, std::uint32_t lane) {
  return rank * TimelineFormat::kLanes + lane;
}

std::string place_of(std::uint32_t rank, std::uint32_t lane) {
  return ",\"pid\":" + std::to_string(rank) + ",\"tid\":" + std::to_string(thread_of(rank, lane));
}

constexpr std::uint32_t kNotesLane = TimelineFormat::kLanes - 1;
constexpr std::uint32_t kFirstGpuLane =
    TimelineFormat::kTensorLanes + TimelineFormat::kSharedLanes + 1;
static_assert(kFirstGpuLane + TimelineFormat::kGpuLanes <= kNotesLane);
static_assert(limits::kMaxRanks * TimelineFormat::kLanes <= 1U << 30);

}  // namespace

bool TimelineFormat::add(const TimelineBatch& batch, TraceEvents& out) {
  TimelineEvents events;
  if (batch.count > 0 && (decode(batch.bytes, events) || !makes_sense(events))) return false;
  if (events.events.empty() && batch.dropped == 0) return true;
  Rank& rank = ranks_[batch.rank];
  Writer to{batch.rank, rank, out};
  if (!rank.named) name_rank(to);
  const std::uint64_t begin = events.events.empty() ? 0 : events.begin_ns + batch.clock_add;
  // The estimate of a clock may get better: what is behind stays behind.
  const auto at = [&](std::uint64_t after) {
    return rank.last = std::max(rank.last, begin + after);
  };
  if (batch.dropped > 0) {
    note(to, "EVENTS_DROPPED", at(0),
         ",\"args\":{\"count\":" + std::to_string(batch.dropped) + "}");
    forget_open(rank);
  }
  for (const TimelineEvent& event : events.events) {
    if (is_gpu(event.mark)) {
      gpu_event(to, events.names[event.name], event, begin + event.after_ns);
      continue;
    }
    const std::uint64_t now = at(event.after_ns);
    if (event.mark == TimelineMark::cycle) {
      note(to, "CYCLE_START", now, {});
    } else if (event.mark == TimelineMark::begin) {
      TimelineFormat::begin(to, events.names[event.name], {event.phase, event.op, now});
    } else {
      end(to, events.names[event.name], event.phase, now);
    }
  }
  return true;
}

void TimelineFormat::finish(std::uint64_t now_ns, TraceEvents& out) {
  for (auto& [number, rank] : ranks_) {
    Writer to{number, rank, out};
    const std::uint64_t now = std::max(now_ns, rank.last);
    const auto end_all = [&](const auto& tensors) {
      for (const auto& [tensor, lane] : tensors)
        // As otherwise, the inner ones first.
        for (auto phase = lane.open.rbegin(); phase != lane.open.rend(); ++phase)
          write(to, tensor, lane.number, *phase, now, false);
    };
    end_all(rank.tensors);
    end_all(rank.shared);
    for (const auto& [tensor, lane] : rank.gpu)
      if (lane.open)
        write(to, tensor, lane.number, lane.phase, std::max(now, lane.phase.begin), false);
  }
  ranks_.clear();
}

void TimelineFormat::name_rank(Writer& to) const {
  to.rank.named = true;
  const std::string number = std::to_string(to.number);
  const std::string head = R"({"ph":"M","pid":)" + number + R"(,"name":)";
  to.out.add(head + R"("process_name","args":{"name":)" +
             json_quoted("rank " + number + " (" + host_of_(to.number) + ")") + "}}");
  to.out.add(head + R"("process_sort_index","args":{"sort_index":)" + number + "}}");
}

void TimelineFormat::name_lane(Writer& to, std::uint32_t lane, std::string_view name) {
  const std::string head = R"({"ph":"M")" + place_of(to.number, lane) + R"(,"name":)";
  to.out.add(head + R"("thread_name","args":{"name":)" + json_quoted(name) + "}}");
  to.out.add(head + R"("thread_sort_index","args":{"sort_index":)" +
             std::to_string(thread_of(to.number, lane)) + "}}");
}

void TimelineFormat::note(Writer& to, std::string_view name, std::uint64_t now,
                          std::string_view rest) {
  if (!std::exchange(to.rank.notes_named, true)) name_lane(to, kNotesLane, "cycles");
  to.out.add(R"({"ph":"i","name":")" + std::string(name) + R"(","ts":)" + to_us(now) +
             place_of(to.number, kNotesLane) + R"(,"s":"t")" + std::string(rest) + "}");
}

TimelineFormat::Lane* TimelineFormat::lane_of(Writer& to, const std::string& tensor) {
  Rank& rank = to.rank;
  const auto known = rank.tensors.find(tensor);
  if (known != rank.tensors.end()) return &known->second;
  if (rank.tensors.size() < kTensorLanes) {
    const auto number = static_cast<std::uint32_t>(rank.tensors.size()) + 1;
    name_lane(to, number, tensor);
    return &(rank.tensors[tensor] = {number, {}});
  }
  const auto guest = rank.shared.find(tensor);
  if (guest != rank.shared.end()) return &guest->second;
  const auto idle = std::find(rank.lane_in_use.begin(), rank.lane_in_use.end(), false);
  if (idle == rank.lane_in_use.end()) return nullptr;
  *idle = true;
  const auto index = static_cast<std::uint32_t>(idle - rank.lane_in_use.begin());
  const std::uint32_t number = kTensorLanes + 1 + index;
  if (index == rank.shared_named) {  // the lowest is taken: lanes are named in their order
    ++rank.shared_named;
    name_lane(to, number, "other tensors");
  }
  return &(rank.shared[tensor] = {number, {}});
}

TimelineFormat::GpuLane* TimelineFormat::gpu_lane_of(Writer& to, const std::string& tensor) {
  Rank& rank = to.rank;
  const auto known = rank.gpu.find(tensor);
  if (known != rank.gpu.end()) return &known->second;
  if (rank.gpu.size() == kGpuLanes) return nullptr;
  const auto number = kFirstGpuLane + static_cast<std::uint32_t>(rank.gpu.size());
  name_lane(to, number, tensor + " (GPU)");
  GpuLane& lane = rank.gpu[tensor];
  lane.number = number;
  return &lane;
}

// A GPU's clock is known only nearly: what would overlap is cut off.
void TimelineFormat::gpu_event(Writer& to, const std::string& tensor, const TimelineEvent& event,
                               std::uint64_t time) {
  GpuLane* const lane = gpu_lane_of(to, tensor);
  if (lane == nullptr) return;
  lane->last = std::max(lane->last, time);
  if (event.mark == TimelineMark::gpu_begin)
    lane->phase = {event.phase, event.op, lane->last};
  else if (lane->open)
    write(to, tensor, lane->number, lane->phase, lane->last, true);
  lane->open = event.mark == TimelineMark::gpu_begin;
}

void TimelineFormat::leave_if_idle(Rank& rank, const std::string& tensor) {
  const auto guest = rank.shared.find(tensor);
  if (guest == rank.shared.end() || !guest->second.open.empty()) return;
  rank.lane_in_use[guest->second.number - kTensorLanes - 1] = false;
  rank.shared.erase(guest);
}

void TimelineFormat::forget_open(Rank& rank) {
  for (auto& [tensor, lane] : rank.tensors) lane.open.clear();
  rank.shared.clear();
  for (auto& [tensor, lane] : rank.gpu) lane.open = false;
  rank.lane_in_use.assign(kSharedLanes, false);
}

void TimelineFormat::begin(Writer& to, const std::string& tensor, const Phase& phase) {
  Lane* const lane = lane_of(to, tensor);
  if (lane == nullptr) return;
  // Nobody ended it: something is missing.
  if (lane->open.size() == kMaxNested) lane->open.clear();
  lane->open.push_back(phase);
}

void TimelineFormat::end(Writer& to, const std::string& tensor, TimelinePhase phase,
                         std::uint64_t now) {
  Lane* const lane = lane_of(to, tensor);
  if (lane == nullptr) return;
  auto& open = lane->open;
  const auto is_it = [&](const Phase& other) { return other.phase == phase; };
  // Without a begin there is nothing to show: the timeline was started within the phase.
  if (std::any_of(open.begin(), open.end(), is_it)) {
    bool found = false;
    while (!found) {
      found = is_it(open.back());
      // A phase that was begun inside it ends with it.
      write(to, tensor, lane->number, open.back(), now, true);
      open.pop_back();
    }
  }
  leave_if_idle(to.rank, tensor);
}

void TimelineFormat::write(Writer& to, const std::string& tensor, std::uint32_t lane,
                           const Phase& phase, std::uint64_t now, bool finished) {
  std::string object = R"({"ph":"X","name":")" + name_of(phase.phase, phase.op) + R"(","ts":)" +
                       to_us(phase.begin) + R"(,"dur":)" + to_us(now - phase.begin) +
                       place_of(to.number, lane);
  std::string args;
  if (lane > kTensorLanes) args = R"("tensor":)" + json_quoted(tensor);
  if (!finished) args += std::string(args.empty() ? "" : ",") + R"("unfinished":true)";
  if (!args.empty()) object += R"(,"args":{)" + args + "}";
  to.out.add(object + "}");
}

}  // namespace hvdrun
