// Objects of any length: their sizes first, then their bytes.
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include <hvd/hvd.h>

namespace hvdrun {
namespace {

// Objects are memory of the host, whatever else the options are for.
hvd::OperationOptions of_bytes(hvd::OperationOptions options) {
  options.device = hvd::Device::cpu;
  options.stream = nullptr;
  options.varying_counts = true;
  return options;
}

// The operation that says how long the objects are, beside that of the objects.
hvd::OperationOptions of_sizes(const hvd::OperationOptions& given) {
  hvd::OperationOptions options = of_bytes(given);
  if (!options.name.empty()) options.name += ".sizes";
  options.shape.clear();
  return options;
}

}  // namespace
}  // namespace hvdrun

namespace hvd {

std::string broadcast_object(const std::string& bytes, int root, const OperationOptions& options) {
  std::int64_t length = static_cast<std::int64_t>(bytes.size());
  broadcast(&length, 1, root, hvdrun::of_sizes(options));
  std::string object = rank() == root ? bytes : std::string();
  object.resize(static_cast<std::size_t>(length));
  broadcast(object.data(), object.size(), DataType::uint8, root, hvdrun::of_bytes(options));
  return object;
}

std::vector<std::string> allgather_object(const std::string& bytes,
                                          const OperationOptions& options) {
  const auto length = static_cast<std::int64_t>(bytes.size());
  std::vector<std::int64_t> lengths(process_set_ranks(options.process_set).size());
  allgather(&length, lengths.data(), 1, hvdrun::of_sizes(options));
  const std::vector<std::size_t> counts(lengths.begin(), lengths.end());
  std::string all(std::accumulate(counts.begin(), counts.end(), std::size_t{0}), '\0');
  allgatherv(bytes.data(), all.data(), counts.data(), DataType::uint8, hvdrun::of_bytes(options));
  std::vector<std::string> objects;
  objects.reserve(counts.size());
  std::size_t begin = 0;
  for (const std::size_t count : counts) {
    objects.push_back(all.substr(begin, count));
    begin += count;
  }
  return objects;
}

}  // namespace hvd
