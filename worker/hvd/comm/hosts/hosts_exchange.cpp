#include "worker/hvd/comm/hosts/hosts_exchange.h"

#include <algorithm>

#include "worker/hvd/comm/size_class.h"

namespace hvdrun {

struct HostsExchange::Slices {
  const BufferRow& row;
  const Reduction& reduction;
  std::size_t width;
  ChannelSlices hosts;  // a host's slice is a channel's
  std::size_t each;     // elements of a chunk

  std::size_t chunks() const { return (hosts.count_of(0) + each - 1) / each; }
  // Where the chunk of a host's slice begins, and its elements: the last slices may be shorter.
  std::size_t begin_of(std::size_t host, std::size_t chunk) const {
    return hosts.begin_of(host) + std::min(chunk * each, hosts.count_of(host));
  }
  std::size_t count_of(std::size_t host, std::size_t chunk) const {
    return begin_of(host, chunk + 1) - begin_of(host, chunk);
  }
};

// A connection carries, each way: elements of chunk 0, of 1, results of 0, elements of 2, results
// of 1, and so on. Chunks without elements are sent too, so that all count alike.
void HostsExchange::run(const BufferRow& row, const Reduction& reduction) {
  const std::size_t hosts = op_.layout().hosts();
  const std::size_t width = element_size(reduction.type);
  const ChannelSlices cut{row.count(), hosts};
  const std::size_t most = std::min(kMostHostChunk, kPartsBytes / 2 / hosts);
  const std::size_t bytes = host_chunk_bytes(cut.count_of(0) * width / 4, most);
  const Slices slices{row, reduction, width, cut, bytes / width};
  const std::size_t chunks = slices.chunks();
  parts_.resize(2 * hosts * slices.each * width);
  send_chunk(slices, 0);
  op_.agree();
  receive_chunk(slices, 0);
  for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
    if (chunk + 1 < chunks) {
      send_chunk(slices, chunk + 1);
      receive_chunk(slices, chunk + 1);
    }
    receive_results(slices, chunk);
    reduce_chunk(slices, chunk);
  }
}

// In place nothing is lost: the results of a chunk come from a host that has got its elements.
void HostsExchange::send_chunk(const Slices& slices, std::size_t chunk) {
  for (std::size_t host = 0; host < op_.layout().hosts(); ++host)
    if (host != op_.host())
      op_.links().send(op_.peer(host), slices.row.inputs(slices.begin_of(host, chunk),
                                                         slices.count_of(host, chunk)));
}

void HostsExchange::receive_chunk(const Slices& slices, std::size_t chunk) {
  const std::size_t hosts = op_.layout().hosts();
  for (std::size_t host = 0; host < hosts; ++host)
    if (host != op_.host())
      op_.links().receive(op_.peer(host),
                          parts_.data() + (chunk % 2 * hosts + host) * slices.each * slices.width,
                          slices.count_of(op_.host(), chunk) * slices.width);
}

void HostsExchange::receive_results(const Slices& slices, std::size_t chunk) {
  for (std::size_t host = 0; host < op_.layout().hosts(); ++host)
    if (host != op_.host())
      op_.links().receive(op_.peer(host), slices.row.outputs(slices.begin_of(host, chunk),
                                                             slices.count_of(host, chunk)));
}

void HostsExchange::reduce_chunk(const Slices& slices, std::size_t chunk) {
  const std::size_t hosts = op_.layout().hosts();
  const std::size_t begin = slices.begin_of(op_.host(), chunk);
  const std::size_t count = slices.count_of(op_.host(), chunk);
  // After this chunk's elements: the results of the chunk before, the next elements, its results.
  const std::size_t later = 1 + (chunk > 0 ? 1 : 0) + (chunk + 1 < slices.chunks() ? 1 : 0);
  sources_.resize(hosts);
  for (std::size_t host = 0; host < hosts; ++host)
    if (host != op_.host()) op_.links().wait_received(op_.peer(host), later);
  slices.row.visit(begin, count, [&](std::size_t at, const BufferPart& part) {
    for (std::size_t host = 0; host < hosts; ++host)
      sources_[host] =
          host == op_.host()
              ? static_cast<const std::byte*>(part.input)
              : parts_.data() + ((chunk % 2 * hosts + host) * slices.each + at) * slices.width;
    auto* const target = static_cast<std::byte*>(part.output);
    reduce_buffers(sources_.data(), hosts, part.count, slices.reduction, &target, 1);
  });
  for (std::size_t host = 0; host < hosts; ++host)
    if (host != op_.host()) op_.links().send(op_.peer(host), slices.row.outputs(begin, count));
}

}  // namespace hvdrun
