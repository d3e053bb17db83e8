#include "worker/hvd/comm/shm/staging.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

namespace hvdrun {
namespace {

constexpr std::size_t kCountsAlignment = 4096;

// A slot is cut into a piece for each rank.
static_assert(kMaxShmRanks * kLineBytes <= kChunkBytes);

}  // namespace

std::size_t Staging::slot_bytes(std::size_t ranks) {
  const std::size_t counts = (ranks + 1) * sizeof(std::uint64_t);
  return kChunkBytes + (counts + kCountsAlignment - 1) / kCountsAlignment * kCountsAlignment;
}

std::size_t Staging::mapping_bytes(std::size_t ranks) {
  return Meeting::control_bytes(ranks) + ranks * kSlots * slot_bytes(ranks);
}

Staging::Staging(std::shared_ptr<const Mapping> mapping, const ShmOptions& options)
    : mapping_(std::move(mapping)),
      rank_(static_cast<std::size_t>(options.rank)),
      size_(static_cast<std::size_t>(options.size)),
      slots_(mapping_->data() + Meeting::control_bytes(size_)),
      slot_bytes_(slot_bytes(size_)),
      meeting_(mapping_->data(), rank_, size_, options.may_spin, options.ranks, options.abort),
      memory_(options.memory),
      places_(size_) {
  assert(size_ <= kMaxShmRanks);
  assert(mapping_->size() >= mapping_bytes(size_));
}

Staging::Opening Staging::open(bool asks, const void* input, std::size_t input_bytes,
                               const void* output, std::size_t output_bytes) {
  // Ranks that called different things: some have begun a stage and some have not. Nobody reads
  // what was staged then, so all may begin anew.
  if (meeting_.take_differed()) stage_ = 0;
  ++stage_;
  if (!asks) return {};
  memory_->forget_released();
  Places own;
  if (input != nullptr && input_bytes > 0) own.input = memory_->find(input, input_bytes);
  if (output_bytes > 0) {
    own.output = memory_->find(output, output_bytes);
    if (own.output.id == 0) own.input = {};
  }
  std::memcpy(meeting_.own_data(), &own, sizeof own);
  return {true, own.input.id != 0};
}

void Staging::read_places() {
  for (std::size_t rank = 0; rank < size_; ++rank)
    std::memcpy(&places_[rank], meeting_.data_of(rank), sizeof(Places));
}

std::byte* Staging::mapped(std::size_t rank, const SharedPlace& place, std::size_t bytes) {
  try {
    return memory_->map(meeting_.number_of(rank), place, bytes);
  } catch (const hvd::Error& error) {
    meeting_.give_up(error);
  }
}

}  // namespace hvdrun
