#include "worker/hvd/comm/hosts/hosts_reduce.h"

#include <algorithm>
#include <utility>

#include "worker/hvd/comm/reduce/copy.h"
#include "worker/hvd/comm/size_class.h"

namespace hvdrun {
namespace {

// Partial sums that may be on their way to the next host. The results on theirs to the host before
// count where they do not lie in the caller's buffer.
constexpr std::size_t kPartials = 4;
constexpr std::size_t kResults = 2;

bool is_plain(const Reduction& reduction) {
  return reduction.prescale == 1 && reduction.type != hvd::DataType::boolean &&
         accumulator_bytes(reduction) == element_size(reduction.type);
}

}  // namespace

// The cut of a large reduction. A chunk goes forward through the hosts, and its results come back
// while later chunks go forward: the earlier a host stands, the more of them are under way.
struct HostsReduce::Chunks {
  const BufferRow& row;
  const Reduction& reduction;
  const CallOptions& step;
  const Deliver* deliver;  // what results go to, and to nothing else; null: they go to the row
  std::size_t width;
  std::size_t wide;  // bytes of an accumulator
  std::size_t each;  // elements of a whole chunk
  std::size_t most;  // of a channel's slice of it
  std::size_t channels;
  bool plain;  // an element is an accumulator as it is

  Chunks(const BufferRow& elements, const Reduction& how, const CallOptions& options,
         std::size_t per_chunk, std::size_t among, const Deliver* to)
      : row(elements),
        reduction(how),
        step(options),
        deliver(to),
        width(elements.width()),
        wide(accumulator_bytes(how)),
        each(per_chunk),
        most(ChannelSlices{per_chunk, among}.count_of(0)),
        channels(among),
        plain(is_plain(how)) {}

  std::size_t number() const { return (row.count() + each - 1) / each; }
  std::size_t begin_of(std::size_t chunk) const { return chunk * each; }
  ChannelSlices slices(std::size_t chunk) const {
    return {std::min(each, row.count() - begin_of(chunk)), channels};
  }
};

HostsReduce::HostsReduce(HostsOperation& operation) : op_(operation), exchange_(operation) {}

void HostsReduce::to_all(const BufferRow& row, const Reduction& reduction,
                         const CallOptions& step) {
  if (is_small_of_all(row.count() * row.width(), op_.layout().size()))
    return small(row, reduction, step);
  if (exchange_.fits()) return exchange_.run(row, reduction);
  const std::size_t wide = accumulator_bytes(reduction);
  const std::size_t channels = op_.channels();
  const std::size_t bytes =
      host_chunk_bytes(row.count() * wide / channels / (4 * op_.layout().hosts()));
  Chunks chunks{row, reduction, step, bytes / wide * channels, channels, nullptr};
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
  if (is_small_of_all(count * width, op_.layout().size())) {
    std::vector<std::byte> results(count * width);
    small({{input, results.data(), count}, width}, reduction, step);
    return deliver(results.data(), 0, count);
  }
  const BufferRow row({input, nullptr, count}, width);
  const std::size_t channels = op_.channels();
  const std::size_t each = kLeastHostChunk * 4 / accumulator_bytes(reduction) * channels;
  Chunks chunks{row, reduction, step, each, channels, &deliver};
  pass_hosts(chunks);
}

// The first rank of each host gets everything and reduces it.
void HostsReduce::small(const BufferRow& row, const Reduction& reduction, const CallOptions& step) {
  const HostLayout& layout = op_.layout();
  const std::size_t count = row.count();
  const std::size_t bytes = count * row.width();
  gathered_.resize(std::max<std::size_t>(layout.size() * bytes, 1));
  std::byte* const block = gathered_.data() + layout.first(op_.host()) * bytes;
  std::byte* const own = gathered_.data() + op_.rank() * bytes;
  std::vector<std::size_t> counts(op_.local_size(), count);
  // A row in one piece is gathered from where it is.
  const auto whole = row.whole(0, count);
  if (!whole || op_.is_alone()) row.copy_inputs(0, count, own);
  if (!op_.is_alone())
    op_.local().allgather(whole ? whole->input : own, block, counts.data(), reduction.type, step);
  const bool first = op_.local_rank() == 0;
  if (first) {
    exchange_small(bytes);
    if (results_.size() < bytes) results_.resize(bytes);
    sources_.resize(layout.size());
    row.visit(0, count, [&](std::size_t at, const BufferPart& part) {
      for (std::size_t rank = 0; rank < layout.size(); ++rank)
        sources_[rank] = gathered_.data() + rank * bytes + at * row.width();
      std::byte* const targets[] = {static_cast<std::byte*>(part.output),
                                    results_.data() + at * row.width()};
      reduce_buffers(sources_.data(), layout.size(), part.count, reduction, targets,
                     op_.is_alone() ? 1 : 2);
    });
  }
  op_.agree();
  if (op_.is_alone()) return;
  std::fill(counts.begin() + 1, counts.end(), 0);
  op_.local().allgather_to(results_.data(), row, 0, counts.data(), reduction.type, step);
}

// Every host's block, to where the blocks of all hosts are gathered.
void HostsReduce::exchange_small(std::size_t bytes) {
  const HostLayout& layout = op_.layout();
  LinkSet& links = op_.links();
  const auto block = [&](std::size_t host) {
    return gathered_.data() + layout.first(host) * bytes;
  };
  for (std::size_t host = 0; host < layout.hosts(); ++host)
    if (host != op_.host()) links.send(op_.peer(host), block(op_.host()), op_.local_size() * bytes);
  op_.agree();
  for (std::size_t host = 0; host < layout.hosts(); ++host)
    if (host != op_.host()) links.receive(op_.peer(host), block(host), layout.count(host) * bytes);
  for (std::size_t host = 0; host < layout.hosts(); ++host)
    if (host != op_.host()) links.wait_received(op_.peer(host));
}

void HostsReduce::pass_hosts(Chunks& chunks) {
  op_.agree();
  if (op_.is_channel()) {
    raw_.resize(op_.is_alone() ? 0 : op_.local_size() * chunks.most * chunks.width);
    prefix_.resize(chunks.most * chunks.wide);
    partial_.resize(kPartials * chunks.most * chunks.wide);
  }
  sources_.resize(op_.local_size());
  const std::size_t ahead = 2 * (op_.layout().hosts() - 1 - op_.host());
  const std::size_t number = chunks.number();
  for (std::size_t chunk = 0; chunk < number + ahead; ++chunk) {
    if (chunk < number) forward(chunks, chunk);
    if (chunk >= ahead) back(chunks, chunk - ahead);
  }
}

HostsReduce::Place HostsReduce::place_of(const Chunks& chunks, std::size_t chunk) {
  if (chunks.deliver == nullptr) {
    const auto whole = chunks.row.whole(chunks.begin_of(chunk), chunks.slices(chunk).count);
    if (whole) return {static_cast<std::byte*>(whole->output), false};
    if (op_.is_alone()) return {nullptr, false};
  }
  // The first one's size holds for all chunks: nothing moves while it is being sent.
  const std::size_t bytes = chunks.each * chunks.width;
  if (results_.size() < kResults * bytes) results_.resize(kResults * bytes);
  return {results_.data() + chunk % kResults * bytes, true};
}

// The ranks of this host are added to what comes from the host before.
void HostsReduce::forward(Chunks& chunks, std::size_t chunk) {
  const std::size_t host = op_.host();
  const bool last = host + 1 == op_.layout().hosts();
  const ChannelSlices slices = chunks.slices(chunk);
  const std::size_t begin = chunks.begin_of(chunk);
  const std::size_t count = slices.count_of(op_.local_rank());
  if (!op_.is_alone()) {
    std::vector<std::size_t> send;
    for (std::size_t rank = 0; rank < op_.local_size(); ++rank)
      send.push_back(slices.count_of(rank));
    const std::vector<std::size_t> receive(op_.local_size(), count);
    op_.local().alltoall_from(chunks.row, begin, send.data(), raw_.data(), receive.data(),
                              chunks.reduction.type, chunks.step);
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
    const Place place = place_of(chunks, chunk);
    if (host > 0 && place.scratch) links.wait_sent(op_.peer(host - 1), kResults - 1);
    const std::size_t at = slices.begin_of(op_.local_rank()) * chunks.width;
    return reduce_slice(chunks, chunk, part, place.memory == nullptr ? nullptr : place.memory + at,
                        chunks.width);
  }
  // A single first rank's elements are its accumulators, and stay until their results are back.
  if (host == 0 && op_.is_alone() && chunks.plain)
    return links.send(op_.peer(host + 1), chunks.row.inputs(begin, count));
  std::byte* const target = partial_.data() + chunk % kPartials * chunks.most * chunks.wide;
  links.wait_sent(op_.peer(host + 1), kPartials - 1);
  reduce_slice(chunks, chunk, part, target, chunks.wide);
  links.send(op_.peer(host + 1), target, count * chunks.wide);
}

// This rank's slice, to `target`, elements of `width` bytes; null: to the row's outputs. A rank
// alone on its host reduces its elements from where they are.
void HostsReduce::reduce_slice(const Chunks& chunks, std::size_t chunk, const PartOfReduction& part,
                               std::byte* target, std::size_t width) {
  const std::size_t count = chunks.slices(chunk).count_of(op_.local_rank());
  if (!op_.is_alone())
    return reduce_buffers(sources_.data(), op_.local_size(), count, chunks.reduction, &target, 1,
                          part);
  chunks.row.visit(chunks.begin_of(chunk), count, [&](std::size_t at, const BufferPart& elements) {
    const auto* const source = static_cast<const std::byte*>(elements.input);
    PartOfReduction own = part;
    if (own.prefix != nullptr) own.prefix += at * chunks.wide;
    std::byte* const place =
        target == nullptr ? static_cast<std::byte*>(elements.output) : target + at * width;
    reduce_buffers(&source, 1, elements.count, chunks.reduction, &place, 1, own);
  });
}

// Results go to the host before, and to the ranks of this one.
void HostsReduce::back(Chunks& chunks, std::size_t chunk) {
  const std::size_t host = op_.host();
  const bool last = host + 1 == op_.layout().hosts();
  const ChannelSlices slices = chunks.slices(chunk);
  const std::size_t begin = chunks.begin_of(chunk);
  const std::size_t own_begin = slices.begin_of(op_.local_rank());
  const std::size_t count = slices.count_of(op_.local_rank());
  const Place place = place_of(chunks, chunk);
  std::byte* const own =
      place.memory == nullptr ? nullptr : place.memory + own_begin * chunks.width;
  const auto own_memory = [&] {
    return own == nullptr ? chunks.row.outputs(begin, count)
                          : MessageMemory(own, count * chunks.width);
  };
  LinkSet& links = op_.links();
  if (count > 0) {
    if (!last) {
      if (host > 0 && place.scratch) links.wait_sent(op_.peer(host - 1), kResults - 1);
      links.receive(op_.peer(host + 1), own_memory());
      links.wait_received(op_.peer(host + 1));
    }
    if (host > 0) links.send(op_.peer(host - 1), own_memory());
  }
  const bool scattered = place.scratch && chunks.deliver == nullptr;
  if (!op_.is_alone()) {
    std::vector<std::size_t> counts;
    for (std::size_t rank = 0; rank < op_.local_size(); ++rank)
      counts.push_back(slices.count_of(rank));
    if (scattered)
      op_.local().allgather_to(own, chunks.row, begin, counts.data(), chunks.reduction.type,
                               chunks.step);
    else
      op_.local().allgather(own, place.memory, counts.data(), chunks.reduction.type, chunks.step);
  }
  if (scattered) chunks.row.copy_outputs(begin + own_begin, count, own);
  if (chunks.deliver != nullptr) (*chunks.deliver)(place.memory, begin, slices.count);
}

}  // namespace hvdrun
