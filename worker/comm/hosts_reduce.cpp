#include "worker/comm/hosts_reduce.h"

#include <algorithm>
#include <utility>

#include "worker/comm/copy.h"

namespace hvdrun {
namespace {

// Of a chunk and channel, in accumulators.
constexpr std::size_t kLeastChunk = 32U << 10;
constexpr std::size_t kMostChunk = 512U << 10;
// Partial sums that may be on their way to the next host, and results on theirs to the host before,
// where they do not lie in the caller's buffer.
constexpr std::size_t kPartials = 4;
constexpr std::size_t kResults = 2;

bool is_plain(const Reduction& reduction) {
  return reduction.prescale == 1 && reduction.type != hvd::DataType::boolean &&
         accumulator_bytes(reduction) == element_size(reduction.type);
}

}  // namespace

// How a large reduction is cut. A chunk goes forward through the hosts, and its results come back
// while later chunks go forward: the earlier a host stands, the more of them are under way.
struct HostsReduce::Chunks {
  const std::byte* input;
  std::byte* output;  // null: results go to `deliver` only
  std::size_t count;
  const Reduction& reduction;
  const CallOptions& step;
  const Deliver* deliver;
  std::size_t width;
  std::size_t wide;  // bytes of an accumulator
  std::size_t each;  // elements of a whole chunk
  std::size_t most;  // of a channel's slice of it
  std::size_t channels;
  bool plain;  // an element is an accumulator as it is

  std::size_t number() const { return (count + each - 1) / each; }
  std::size_t begin_of(std::size_t chunk) const { return chunk * each; }
  ChannelSlices slices(std::size_t chunk) const {
    return {std::min(each, count - begin_of(chunk)), channels};
  }
};

HostsReduce::HostsReduce(HostsOperation& operation) : op_(operation), exchange_(operation) {}

bool HostsReduce::is_small(std::size_t bytes) const {
  return bytes <= kSmallBytes / op_.layout().size();
}

void HostsReduce::to_all(const std::byte* input, std::byte* output, std::size_t count,
                         const Reduction& reduction, const CallOptions& step) {
  if (is_small(count * element_size(reduction.type)))
    return small(input, output, count, reduction, step);
  if (exchange_.fits()) return exchange_.run(input, output, count, reduction);
  const std::size_t width = element_size(reduction.type);
  const std::size_t wide = accumulator_bytes(reduction);
  const std::size_t channels = op_.channels();
  const std::size_t bytes =
      std::clamp(count * wide / channels / (4 * op_.layout().hosts()), kLeastChunk, kMostChunk);
  const std::size_t each = bytes / wide * channels;
  Chunks chunks{input,    output,
                count,    reduction,
                step,     nullptr,
                width,    wide,
                each,     ChannelSlices{each, channels}.count_of(0),
                channels, is_plain(reduction)};
  pass_hosts(chunks);
}

void HostsReduce::to_part(const std::byte* input, std::byte* output, std::size_t count,
                          std::size_t begin, std::size_t part, const Reduction& reduction,
                          const CallOptions& step) {
  const std::size_t width = element_size(reduction.type);
  const Deliver deliver = [&](const std::byte* results, std::size_t at, std::size_t size) {
    const std::size_t from = std::max(at, begin);
    const std::size_t to = std::min(at + size, begin + part);
    if (from < to)
      copy_bytes(output + (from - begin) * width, results + (from - at) * width,
                 (to - from) * width);
  };
  if (is_small(count * width)) {
    results_.resize(count * width);
    small(input, results_.data(), count, reduction, step);
    return deliver(results_.data(), 0, count);
  }
  const std::size_t wide = accumulator_bytes(reduction);
  const std::size_t channels = op_.channels();
  const std::size_t each = kLeastChunk * 4 / wide * channels;
  Chunks chunks{input,    nullptr,
                count,    reduction,
                step,     &deliver,
                width,    wide,
                each,     ChannelSlices{each, channels}.count_of(0),
                channels, is_plain(reduction)};
  pass_hosts(chunks);
}

// The first rank of each host gets everything and reduces it.
void HostsReduce::small(const std::byte* input, std::byte* output, std::size_t count,
                        const Reduction& reduction, const CallOptions& step) {
  const HostLayout& layout = op_.layout();
  const std::size_t bytes = count * element_size(reduction.type);
  gathered_.resize(std::max<std::size_t>(layout.size() * bytes, 1));
  const auto block = [&](std::size_t host) {
    return gathered_.data() + layout.first(host) * bytes;
  };
  const std::vector<std::size_t> counts(op_.local_size(), bytes);
  op_.local().allgather(input, block(op_.host()), counts.data(), hvd::DataType::uint8, step);
  if (op_.local_rank() == 0) {
    LinkSet& links = op_.links();
    for (std::size_t host = 0; host < layout.hosts(); ++host)
      if (host != op_.host())
        links.send(op_.peer(host), block(op_.host()), op_.local_size() * bytes);
    op_.agree();
    for (std::size_t host = 0; host < layout.hosts(); ++host)
      if (host != op_.host())
        links.receive(op_.peer(host), block(host), layout.count(host) * bytes);
    for (std::size_t host = 0; host < layout.hosts(); ++host)
      if (host != op_.host()) links.wait_received(op_.peer(host));
    sources_.resize(layout.size());
    for (std::size_t rank = 0; rank < layout.size(); ++rank)
      sources_[rank] = gathered_.data() + rank * bytes;
    if (count > 0) reduce(sources_.data(), layout.size(), count, reduction, &output, 1);
  }
  op_.agree();
  if (!op_.is_alone()) op_.local().broadcast(output, bytes, hvd::DataType::uint8, 0, step);
}

void HostsReduce::pass_hosts(Chunks& chunks) {
  op_.agree();
  if (op_.is_channel()) {
    raw_.resize(op_.is_alone() ? 0 : op_.local_size() * chunks.most * chunks.width);
    prefix_.resize(chunks.most * chunks.wide);
    partial_.resize(kPartials * chunks.most * chunks.wide);
  }
  if (chunks.output == nullptr) results_.resize(kResults * chunks.each * chunks.width);
  sources_.resize(op_.local_size());
  const std::size_t ahead = 2 * (op_.layout().hosts() - 1 - op_.host());
  const std::size_t number = chunks.number();
  for (std::size_t chunk = 0; chunk < number + ahead; ++chunk) {
    if (chunk < number) forward(chunks, chunk);
    if (chunk >= ahead) back(chunks, chunk - ahead);
  }
}

// The ranks of this host are added to what comes from the host before.
void HostsReduce::forward(Chunks& chunks, std::size_t chunk) {
  const std::size_t host = op_.host();
  const bool last = host + 1 == op_.layout().hosts();
  const ChannelSlices slices = chunks.slices(chunk);
  const std::byte* const input = chunks.input + chunks.begin_of(chunk) * chunks.width;
  const std::size_t count = slices.count_of(op_.local_rank());
  if (op_.is_alone()) {
    sources_[0] = input;
  } else {
    std::vector<std::size_t> send;
    for (std::size_t rank = 0; rank < op_.local_size(); ++rank)
      send.push_back(slices.count_of(rank));
    const std::vector<std::size_t> receive(op_.local_size(), count);
    op_.local().alltoall(input, send.data(), raw_.data(), receive.data(), chunks.reduction.type,
                         chunks.step);
    for (std::size_t rank = 0; rank < op_.local_size(); ++rank)
      sources_[rank] = raw_.data() + rank * count * chunks.width;
  }
  if (count == 0) return;
  LinkSet& links = op_.links();
  PartOfReduction part{.unfinished = !last, .ranks = op_.layout().size()};
  if (host > 0) {
    links.receive(op_.peer(host - 1), prefix_.data(), count * chunks.wide);
    links.wait_received(op_.peer(host - 1));
    part.prefix = prefix_.data();
  }
  if (last) {
    std::byte* const target =
        (chunks.output != nullptr
             ? chunks.output + chunks.begin_of(chunk) * chunks.width
             : results_.data() + chunk % kResults * chunks.each * chunks.width) +
        slices.begin_of(op_.local_rank()) * chunks.width;
    if (host > 0 && chunks.output == nullptr) links.wait_sent(op_.peer(host - 1), kResults - 1);
    return reduce(sources_.data(), op_.local_size(), count, chunks.reduction, &target, 1, part);
  }
  // A single first rank's elements are its accumulators, and stay until their results are back.
  if (host == 0 && op_.is_alone() && chunks.plain)
    return links.send(op_.peer(host + 1), input, count * chunks.width);
  std::byte* const target = partial_.data() + chunk % kPartials * chunks.most * chunks.wide;
  links.wait_sent(op_.peer(host + 1), kPartials - 1);
  reduce(sources_.data(), op_.local_size(), count, chunks.reduction, &target, 1, part);
  links.send(op_.peer(host + 1), target, count * chunks.wide);
}

// Results go to the host before, and to the ranks of this one.
void HostsReduce::back(Chunks& chunks, std::size_t chunk) {
  const std::size_t host = op_.host();
  const bool last = host + 1 == op_.layout().hosts();
  const ChannelSlices slices = chunks.slices(chunk);
  std::byte* const results = chunks.output != nullptr
                                 ? chunks.output + chunks.begin_of(chunk) * chunks.width
                                 : results_.data() + chunk % kResults * chunks.each * chunks.width;
  std::byte* const own = results + slices.begin_of(op_.local_rank()) * chunks.width;
  LinkSet& links = op_.links();
  if (const std::size_t bytes = slices.count_of(op_.local_rank()) * chunks.width; bytes > 0) {
    if (!last) {
      if (host > 0 && chunks.output == nullptr) links.wait_sent(op_.peer(host - 1), kResults - 1);
      links.receive(op_.peer(host + 1), own, bytes);
      links.wait_received(op_.peer(host + 1));
    }
    if (host > 0) links.send(op_.peer(host - 1), own, bytes);
  }
  if (!op_.is_alone()) {
    std::vector<std::size_t> counts;
    for (std::size_t rank = 0; rank < op_.local_size(); ++rank)
      counts.push_back(slices.count_of(rank));
    op_.local().allgather(own, results, counts.data(), chunks.reduction.type, chunks.step);
  }
  if (chunks.deliver != nullptr) (*chunks.deliver)(results, chunks.begin_of(chunk), slices.count);
}

}  // namespace hvdrun
