// The making of an executor's NCCL communicator, and of others out of it.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <string_view>
#include <utility>

#include "worker/hvd/engine/device_use.h"
#include "worker/hvd/engine/fingerprint.h"
#include "worker/hvd/engine/gpu_executor.h"

namespace hvdrun {
namespace {

using hvd::ErrorCode;

// The ranks compare this in place of an operation's fingerprint while they make the communicator.
constexpr std::uint64_t kConnect = 3;

// For what others have to say after this rank has waited in vain: they began when it did, so who is
// still silent then has not come at all.
constexpr std::chrono::milliseconds kLastWords{100};

constexpr std::size_t kText = 240;
void put_text(std::array<char, kText>& to, const std::string& text) {
  text.copy(to.data(), to.size() - 1);
}

// Never 0, which is none.
std::uint64_t fingerprint_of(const nccl::UniqueId& id) {
  return Fingerprint().add(std::string_view(id.bytes, sizeof id.bytes)).value() | 1U;
}

}  // namespace

// A rank's words to the others before NCCL is called.
struct GpuExecutor::Readiness {
  nccl::UniqueId id{};        // rank 0's, unless it has been told before
  std::uint64_t told_id = 0;  // then: its fingerprint
  std::uint64_t has_nccl = 0;
  std::uint64_t has_kernels = 0;
  std::array<char, kText> why{};  // one of them is missing
};

// The outcome of the call.
struct GpuExecutor::Outcome {
  std::uint64_t failed = 0;
  std::uint64_t code = 0;
  std::array<char, kText> text{};
};

template <class Record>
std::vector<Record> GpuExecutor::gather(const Record& own, const CallOptions& options) {
  std::vector<Record> all(static_cast<std::size_t>(host_.size()));
  const std::vector<std::size_t> counts(all.size(), sizeof own);
  CallOptions step = options;
  step.fingerprint = kConnect;
  host_.allgather(&own, all.data(), counts.data(), hvd::DataType::uint8, step);
  return all;
}

// Nobody to connect with: no NCCL is loaded.
void GpuExecutor::connect_alone() {
  try {
    communicator_ = std::make_unique<NcclCommunicator>(gpu_->parts_alone(), 0, 1, names_);
    gpu_->watch().add(*communicator_);
  } catch (const hvd::Error& error) {
    failure_.emplace(error.code(), error.what());
  }
}

// All ranks are here together and leave with a communicator, or all with the same failure.
void GpuExecutor::connect(const CallOptions& options) {
  if (host_.size() == 1) return connect_alone();
  RankGpu::Parts found = gpu_->parts();
  Readiness own;
  std::string why = found.no_nccl;
  own.has_nccl = found.parts.nccl != nullptr ? 1 : 0;
  own.has_kernels = found.parts.kernels != nullptr ? 1 : 0;
  if (id_) {
    own.told_id = fingerprint_of(*id_);
  } else if (own.has_nccl == 1 && host_.rank() == 0) {
    try {
      own.id = NcclCommunicator::make_id(*found.parts.nccl);
    } catch (const hvd::Error& error) {
      own.has_nccl = 0;
      why = error.what();
    }
  }
  put_text(own.why, own.has_nccl == 0 ? why : found.parts.no_kernels);
  const std::vector<Readiness> all = gather(own, options);
  const auto why_of = [&](auto rank) {
    return rank_text(static_cast<std::size_t>(rank - all.begin())) + ": " + rank->why.data();
  };
  const auto no_nccl =
      std::find_if(all.begin(), all.end(), [](const Readiness& one) { return one.has_nccl == 0; });
  if (no_nccl != all.end()) {
    failure_.emplace(ErrorCode::unavailable, why_of(no_nccl));
    return;
  }
  // NCCL would let those with one id wait for those with another.
  const auto other_id = std::find_if(all.begin(), all.end(), [&](const Readiness& one) {
    return one.told_id != all.front().told_id;
  });
  if (other_id != all.end()) {
    failure_.emplace(ErrorCode::internal,
                     rank_text(static_cast<std::size_t>(other_id - all.begin())) +
                         " was given another id for NCCL than " + rank_text(0) + " as it joined");
    return;
  }
  // The need of a kernel of ours is an error on all ranks, or on none.
  const auto no_kernels = std::find_if(all.begin(), all.end(),
                                       [](const Readiness& one) { return one.has_kernels == 0; });
  if (no_kernels != all.end()) {
    found.parts.kernels.reset();
    found.parts.no_kernels = why_of(no_kernels);
  }
  std::optional<hvd::Error> failure;
  try {
    communicator_ = std::make_unique<NcclCommunicator>(std::move(found.parts), host_.rank(),
                                                       host_.size(), names_);
    gpu_->watch().add(*communicator_);
    // Throws when a rank has gone already: who told it found no communicator to abort.
    host_.await_others(Milliseconds(0));
    communicator_->connect(id_ ? *id_ : all.front().id, connect_timeout_);
  } catch (const hvd::Error& error) {
    failure.emplace(error.code(), error.what());
  } catch (const std::exception& error) {
    failure.emplace(ErrorCode::internal, error.what());  // the others wait for an answer
  }
  exchange_outcomes(failure, options);
  if (!failure_ || !communicator_) return;
  gpu_->watch().remove(*communicator_);
  communicator_->abort(*failure_);
  communicator_.reset();
}

void GpuExecutor::adopt(std::unique_ptr<NcclCommunicator> made) {
  communicator_ = std::move(made);
  gpu_->watch().add(*communicator_);
}

struct GpuExecutor::Splittable {
  std::uint64_t yes = 0;
};

// All ranks are here together, and leave it alike: the members with a communicator, or nobody with
// one and the executor as it was, or all with the same failure.
void GpuExecutor::split(GpuSplit& wanted, const CallOptions& options) {
  Splittable own;
  if (communicator_ && !failure_ && communicator_->may_split()) {
    try {
      // NCCL may hang where something of the communicator is under way.
      communicator_->wait(last_, patience_);
      own.yes = 1;
    } catch (const hvd::Error&) {
      // It has failed, and who ran the operation is told.
    }
  }
  CallOptions patient = options;
  patient.timeout += patience_;
  const std::vector<Splittable> all = gather(own, patient);
  if (std::any_of(all.begin(), all.end(), [](const Splittable& one) { return one.yes == 0; }))
    return;
  std::optional<hvd::Error> failure;
  try {
    wanted.made = communicator_->split(wanted.members, connect_timeout_);
  } catch (const hvd::Error& error) {
    failure.emplace(error.code(), error.what());
  } catch (const std::exception& error) {
    failure.emplace(ErrorCode::internal, error.what());  // the others wait for an answer
  }
  exchange_outcomes(failure, options);
  if (!failure_) return;
  // A communicator that could not be split on one rank is good for nothing on any.
  wanted.made.reset();
  communicator_->abort(*failure_);
  throw hvd::Error(*failure_);
}

void GpuExecutor::exchange_outcomes(const std::optional<hvd::Error>& own,
                                    const CallOptions& options) {
  Outcome outcome;
  if (own) {
    outcome.failed = 1;
    outcome.code = static_cast<std::uint64_t>(own->code());
    put_text(outcome.text, own->what());
  }
  CallOptions patient = options;
  const bool in_vain = own && own->code() == ErrorCode::timeout;
  // Others may wait in NCCL for as long as it takes.
  patient.timeout = in_vain ? kLastWords : patient.timeout + connect_timeout_;
  std::vector<Outcome> all;
  try {
    all = gather(outcome, patient);
  } catch (const hvd::Error&) {
    if (in_vain) break_off(*own);
    throw;
  }
  // A rank that waited in vain knows least, then one that only saw another one leave.
  const auto knows = [](const Outcome& one) {
    if (one.code == static_cast<std::uint64_t>(ErrorCode::timeout)) return 0;
    return one.code == static_cast<std::uint64_t>(ErrorCode::peer_lost) ? 1 : 2;
  };
  const Outcome* worst = nullptr;
  for (const Outcome& one : all)
    if (one.failed != 0 && (worst == nullptr || knows(one) > knows(*worst))) worst = &one;
  if (worst != nullptr)
    failure_.emplace(static_cast<ErrorCode>(worst->code), std::string(worst->text.data()));
}

}  // namespace hvdrun
