#include "worker/hvd/comm/shm/shm_alltoall.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>

#include "worker/hvd/comm/descriptor.h"
#include "worker/hvd/comm/reduce/copy.h"

namespace hvdrun {

void ShmAlltoall::alltoall(const BufferRow& row, std::size_t begin, const std::size_t* send_counts,
                           std::byte* output, const std::size_t* receive_counts, hvd::DataType type,
                           const CallOptions& options) {
  meeting_.begin(Descriptor{.kind = OpKind::alltoall, .type = type}, options);
  const std::size_t width = element_size(type);
  const std::size_t step = staging_.piece_bytes() / width * width;
  const std::size_t own_begin = begin + sum_of(send_counts, rank_);
  const std::size_t count = sum_of(send_counts, size_);
  const Copy copy = copy_for(count * width * size_);
  const auto whole = row.whole(begin, count);
  // In place what arrives would overwrite what others still read.
  const bool in_place = whole && whole->input == output;
  // Sizes differ between ranks, so all ask always.
  const bool asks = staging_.asks(std::numeric_limits<std::size_t>::max());
  const bool offers = whole && !in_place && staging_.asks(count * width);
  const Staging::Opening opening =
      staging_.open(asks, offers ? whole->input : nullptr, count * width, nullptr, 0);
  // Elements of a pair of ranks that a stage moves, after those in `done` bytes.
  const auto size_at = [&](std::size_t elements, std::size_t done) {
    return std::min(step, elements * width - std::min(elements * width, done)) / width;
  };
  std::size_t most = 0;
  const auto fill = [&](std::size_t done) {
    std::size_t at = begin + done / width;
    for (std::size_t reader = 0; reader < size_; ++reader) {
      if (reader != rank_)
        row.copy_inputs(at, size_at(send_counts[reader], done), staging_.piece(rank_, reader));
      at += send_counts[reader];
    }
  };
  const auto drain = [&](std::size_t done) {
    std::size_t at = done;
    for (std::size_t rank = 0; rank < size_; at += receive_counts[rank++] * width) {
      const std::size_t elements = size_at(receive_counts[rank], done);
      if (elements == 0) continue;
      if (rank != rank_)
        copy(output + at, staging_.piece(rank, rank_), elements * width);
      else if (!in_place)
        row.copy_inputs(own_begin + done / width, elements, output + at, copy);
    }
  };
  publish_counts(send_counts);
  const bool shared = staging_.move(
      opening, step, [&](std::size_t rank) { return most_sent(rank) > 0; }, fill,
      [&] { return most = agree_on_counts(receive_counts) * width; }, drain);
  if (shared) read_shared(output, receive_counts, width, copy);
  // Whoever finds that the counts differ has told everybody before anybody returns.
  if (shared || most <= step) meeting_.meet();
}

void ShmAlltoall::read_shared(std::byte* output, const std::size_t* receive_counts,
                              std::size_t width, Copy copy) {
  for (std::size_t rank = 0; rank < size_; ++rank) {
    const std::size_t bytes = receive_counts[rank] * width;
    std::size_t begin = 0;
    for (std::size_t reader = 0; reader < rank_; ++reader) begin += sent(rank, reader) * width;
    if (bytes > 0)
      copy(output, staging_.mapped(rank, staging_.places(rank).input, begin + bytes) + begin,
           bytes);
    output += bytes;
  }
}

void ShmAlltoall::publish_counts(const std::size_t* send_counts) {
  std::byte* const row = staging_.counts(rank_);
  const std::uint64_t most = *std::max_element(send_counts, send_counts + size_);
  for (std::size_t reader = 0; reader < size_; ++reader) {
    const std::uint64_t count = send_counts[reader];
    std::memcpy(row + reader * sizeof count, &count, sizeof count);
  }
  std::memcpy(row + size_ * sizeof most, &most, sizeof most);
}

std::size_t ShmAlltoall::sent(std::size_t rank, std::size_t reader) const {
  std::uint64_t count = 0;
  std::memcpy(&count, staging_.counts(rank) + reader * sizeof count, sizeof count);
  return static_cast<std::size_t>(count);
}

std::size_t ShmAlltoall::agree_on_counts(const std::size_t* receive_counts) {
  std::size_t most = 0;
  for (std::size_t rank = 0; rank < size_; ++rank) {
    most = std::max(most, most_sent(rank));
    if (sent(rank, rank_) != receive_counts[rank])
      meeting_.give_up({hvd::ErrorCode::mismatch,
                        counts_differ(meeting_.number_of(rank), sent(rank, rank_),
                                      meeting_.number_of(rank_), receive_counts[rank])});
  }
  return most;
}

}  // namespace hvdrun
