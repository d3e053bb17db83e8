#include "worker/hvd/comm/hosts/hosts_move.h"

#include <algorithm>

#include "worker/hvd/comm/reduce/copy.h"
#include "worker/hvd/comm/size_class.h"

namespace hvdrun {
namespace {

constexpr auto kBytes = hvd::DataType::uint8;

}  // namespace

void HostsMove::spread(std::byte* data, const ChannelSlices& slices, const CallOptions& step) {
  if (op_.is_alone()) return;
  std::vector<std::size_t> counts;
  for (std::size_t rank = 0; rank < op_.local_size(); ++rank)
    counts.push_back(slices.count_of(rank));
  op_.local().allgather(data + slices.begin_of(op_.local_rank()), data, counts.data(), kBytes,
                        step);
}

// From host to host, beginning with the root's: everybody forwards what has come while the next
// chunk is on its way. What is small goes to every host directly.
void HostsMove::broadcast(std::byte* data, std::size_t bytes, std::size_t root,
                          const CallOptions& step) {
  const HostLayout& layout = op_.layout();
  const std::size_t hosts = layout.hosts();
  const std::size_t root_host = layout.host_of(root);
  const std::size_t place = (op_.host() + hosts - root_host) % hosts;
  const int local_root = static_cast<int>(root - layout.first(root_host));
  const bool small = is_small(bytes);
  const std::size_t channels = small ? 1 : op_.channels();
  const std::size_t each = small ? kSmallBytes : kChunkBytes * channels;
  op_.agree();
  // Ranks without a channel hear from the others that all hosts call the same.
  if (bytes == 0) return op_.local().barrier(step);
  LinkSet& links = op_.links();
  const auto host_at = [&](std::size_t at) { return (root_host + at) % hosts; };
  for (std::size_t done = 0; done < bytes; done += each) {
    std::byte* const chunk = data + done;
    const ChannelSlices slices{std::min(each, bytes - done), channels};
    std::byte* const own = chunk + slices.begin_of(op_.local_rank());
    const std::size_t size = slices.count_of(op_.local_rank());
    if (place == 0 && !op_.is_alone())
      op_.local().broadcast(chunk, slices.count, kBytes, local_root, step);
    if (size > 0) {
      if (place > 0) {
        const std::size_t from = op_.peer(small ? root_host : host_at(place - 1));
        links.receive(from, own, size);
        links.wait_received(from);
      }
      const std::size_t last = small ? hosts - 1 : std::min(place + 1, hosts - 1);
      if (!small || place == 0)
        for (std::size_t at = place + 1; at <= last; ++at)
          links.send(op_.peer(host_at(at)), own, size);
    }
    if (place > 0) spread(chunk, slices, step);
  }
}

// Every host's block goes to every other host, in slices; it lands where it belongs.
void HostsMove::allgather(const std::byte* input, std::byte* output, const std::size_t* counts,
                          hvd::DataType type, const CallOptions& step) {
  const HostLayout& layout = op_.layout();
  const std::size_t width = element_size(type);
  const auto block = [&](std::size_t host) {
    return output + sum_of(counts, layout.first(host)) * width;
  };
  const auto slices_of = [&](std::size_t host) {
    const std::size_t bytes = sum_of(counts + layout.first(host), layout.count(host)) * width;
    return ChannelSlices{bytes, is_small(bytes) ? 1 : op_.channels()};
  };
  op_.local().allgather(input, block(op_.host()), counts + layout.first(op_.host()), type, step);
  LinkSet& links = op_.links();
  const std::size_t local = op_.local_rank();
  const ChannelSlices own = slices_of(op_.host());
  if (const std::size_t bytes = own.count_of(local); bytes > 0)
    for (std::size_t host = 0; host < layout.hosts(); ++host)
      if (host != op_.host())
        links.send(op_.peer(host), block(op_.host()) + own.begin_of(local), bytes);
  op_.agree();
  for (std::size_t host = 0; host < layout.hosts(); ++host) {
    const ChannelSlices slices = slices_of(host);
    if (host != op_.host() && slices.count_of(local) > 0)
      links.receive(op_.peer(host), block(host) + slices.begin_of(local), slices.count_of(local));
  }
  for (std::size_t host = 0; host < layout.hosts(); ++host) {
    if (host == op_.host()) continue;
    if (op_.is_channel()) links.wait_received(op_.peer(host));
    spread(block(host), slices_of(host), step);
  }
}

std::vector<std::size_t> HostsMove::remote_ranks() const {
  std::vector<std::size_t> ranks;
  for (std::size_t rank = 0; rank < op_.layout().size(); ++rank)
    if (op_.layout().host_of(rank) != op_.host()) ranks.push_back(rank);
  return ranks;
}

void HostsMove::alltoall(const BufferRow& row, std::size_t begin, const std::size_t* send_counts,
                         std::byte* output, const std::size_t* receive_counts, hvd::DataType type,
                         const CallOptions& step) {
  const std::size_t first = op_.layout().first(op_.host());
  // Ranks without a channel hear from the others that all hosts call the same.
  op_.agree();
  op_.local().barrier(step);
  op_.links().connect(remote_ranks());
  exchange_counts(send_counts, receive_counts);
  op_.local().alltoall_from(row, begin + sum_of(send_counts, first), send_counts + first,
                            output + sum_of(receive_counts, first) * row.width(),
                            receive_counts + first, type, step);
  exchange_windows(row, begin, send_counts, output, receive_counts);
  finish_together(step);
}

void HostsMove::exchange_counts(const std::size_t* send_counts, const std::size_t* receive_counts) {
  sent_.assign(op_.layout().size(), 0);
  received_.assign(op_.layout().size(), 0);
  const std::vector<std::size_t> ranks = remote_ranks();
  for (const std::size_t rank : ranks) {
    sent_[rank] = send_counts[rank];
    op_.links().send(rank, &sent_[rank], sizeof sent_[rank]);
    op_.links().receive(rank, &received_[rank], sizeof received_[rank]);
  }
  for (const std::size_t rank : ranks) {
    op_.links().wait_received(rank);
    if (received_[rank] != receive_counts[rank])
      throw hvd::Error(hvd::ErrorCode::mismatch,
                       counts_differ(rank, received_[rank], op_.rank(), receive_counts[rank]));
  }
}

// In place what arrives would overwrite what is still to be sent, so that goes through a window of
// each pair. All pairs cut what they exchange alike, since the other side may not be in place.
void HostsMove::exchange_windows(const BufferRow& row, std::size_t begin,
                                 const std::size_t* send_counts, std::byte* output,
                                 const std::size_t* receive_counts) {
  const std::size_t width = row.width();
  LinkSet& links = op_.links();
  const std::vector<std::size_t> ranks = remote_ranks();
  const auto whole = row.whole(begin, sum_of(send_counts, op_.layout().size()));
  const bool in_place = whole && whole->input == output;
  std::size_t most = 0;
  for (const std::size_t rank : ranks)
    most = std::max({most, send_counts[rank] * width, receive_counts[rank] * width});
  if (in_place) staged_.resize(ranks.size() * std::min(most, kWindowBytes));
  const auto size_at = [&](std::size_t count, std::size_t done) {
    return std::min(kWindowBytes, count * width - std::min(count * width, done));
  };
  for (std::size_t done = 0; done < most; done += kWindowBytes) {
    std::byte* stage = staged_.data();
    for (const std::size_t rank : ranks) {
      const std::size_t bytes = size_at(send_counts[rank], done);
      if (bytes == 0) continue;
      const std::size_t from = begin + sum_of(send_counts, rank) + done / width;
      if (!in_place) {
        links.send(rank, row.inputs(from, bytes / width));
        continue;
      }
      row.copy_inputs(from, bytes / width, stage);
      links.send(rank, stage, bytes);
      stage += bytes;
    }
    for (const std::size_t rank : ranks)
      if (const std::size_t bytes = size_at(receive_counts[rank], done); bytes > 0)
        links.receive(rank, output + sum_of(receive_counts, rank) * width + done, bytes);
    if (in_place) links.wait_all();
  }
  links.wait_all();
}

void HostsMove::finish_together(const CallOptions& step) {
  op_.local().barrier(step);
  if (op_.is_channel()) {
    for (std::size_t host = 0; host < op_.layout().hosts(); ++host) {
      if (host == op_.host()) continue;
      op_.links().send(op_.peer(host), nullptr, 0);
      op_.links().receive(op_.peer(host), nullptr, 0);
    }
    op_.links().wait_all();
  }
  op_.local().barrier(step);
}

}  // namespace hvdrun
