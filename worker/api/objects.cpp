// Objects of any length: their sizes first, then their bytes.
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

#include <hvd/hvd.h>

namespace hvd {

std::string broadcast_object(const std::string& bytes, int root) {
  std::int64_t length = static_cast<std::int64_t>(bytes.size());
  broadcast(&length, 1, root);
  std::string object = rank() == root ? bytes : std::string();
  object.resize(static_cast<std::size_t>(length));
  broadcast(object.data(), object.size(), DataType::uint8, root);
  return object;
}

std::vector<std::string> allgather_object(const std::string& bytes) {
  const auto length = static_cast<std::int64_t>(bytes.size());
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(size()));
  allgather(&length, lengths.data(), 1);
  const std::vector<std::size_t> counts(lengths.begin(), lengths.end());
  std::string all(std::accumulate(counts.begin(), counts.end(), std::size_t{0}), '\0');
  allgatherv(bytes.data(), all.data(), counts.data(), DataType::uint8);
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
