#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>
#include <zlib.h>

#include "worker/labs/data/files/example.h"
#include "worker/labs/data/images/image_source.h"

namespace hvdrun {
namespace {

constexpr std::size_t kMaxShards = 99'999;
constexpr std::size_t kMaxRecordCount = 0xffff'ffff;  // of all shards

class ShardSource final : public ImageSource {
 public:
  ShardSource(std::vector<RecordFile> shards, std::int64_t classes)
      : shards_(std::move(shards)), classes_(classes) {
    for (const RecordFile& shard : shards_) ends_.push_back(size() + shard.size());
  }

  std::size_t size() const override { return ends_.empty() ? 0 : ends_.back(); }
  std::int64_t classes() const override { return classes_; }
  std::string note() const override {
    std::size_t empty = 0;
    const RecordFile* first = nullptr;
    for (const RecordFile& shard : shards_) {
      if (shard.size() > 0) continue;
      if (empty++ == 0) first = &shard;
    }
    if (empty == 0) return {};
    return first->path() + ": no record in it" +
           (empty == 1 ? "" : ", nor in " + std::to_string(empty - 1) + " more shards");
  }
  std::uint32_t checksum() const override {
    unsigned long sum = 0;  // NOLINT(google-runtime-int): zlib's
    for (const RecordFile& shard : shards_) {
      const std::string text = std::filesystem::path(shard.path()).filename().string() + " " +
                               std::to_string(shard.size()) + "\n";
      sum = crc32_z(sum, reinterpret_cast<const Bytef*>(text.data()), text.size());
    }
    return static_cast<std::uint32_t>(sum);
  }

  std::optional<EncodedImage> read(std::size_t index, std::string& error) const override {
    const auto end = std::upper_bound(ends_.begin(), ends_.end(), index);
    const RecordFile& shard = shards_.at(static_cast<std::size_t>(end - ends_.begin()));
    const std::size_t record = index - (*end - shard.size());
    const std::optional<std::string> bytes = shard.read(record, error);
    if (!bytes) return std::nullopt;
    const std::string place = shard.path() + ": record " + std::to_string(record);
    const std::optional<Example> example = parse_example(*bytes, error);
    if (!example) {
      error = place + ": " + error;
      return std::nullopt;
    }
    const Feature* const encoded = example->find("image/encoded");
    const Feature* const label = example->find("image/class/label");
    if (encoded == nullptr || encoded->bytes.size() != 1) {
      error = place + ": no \"image/encoded\"";
      return std::nullopt;
    }
    if (label == nullptr || label->integers.size() != 1 || label->integers[0] < 1 ||
        label->integers[0] > classes_) {
      error = place + ": \"image/class/label\" is no class from 1 to " + std::to_string(classes_) +
              " (--classes)";
      return std::nullopt;
    }
    return EncodedImage{std::string(encoded->bytes[0]), label->integers[0] - 1, place};
  }

 private:
  std::vector<RecordFile> shards_;
  std::vector<std::size_t> ends_;  // of each shard in the numbers of all
  std::int64_t classes_;
};

// The number of shards, by the names in the folder; 0 and an error when there is none.
std::size_t count_shards(const std::string& directory, const std::string& name,
                         std::string& error) {
  std::error_code code;
  std::size_t found = 0;
  std::filesystem::directory_iterator next(directory, code);
  for (const std::filesystem::directory_iterator end; !code && next != end; next.increment(code)) {
    const std::string file = next->path().filename().string();
    const auto of = file.rfind("-of-");
    if (file.rfind(name + "-", 0) != 0 || of == std::string::npos || of + 9 != file.size())
      continue;
    const std::string digits = file.substr(of + 4);
    if (digits.find_first_not_of("0123456789") != std::string::npos) continue;
    const std::size_t shards = std::stoul(digits);
    if (shards == 0 || shards > kMaxShards || shards == found) continue;
    if (found != 0) {
      error = directory;
      error.append(": shards ").append(name).append(" of two sets, ");
      error.append(std::to_string(std::min(found, shards))).append(" and ");
      error.append(std::to_string(std::max(found, shards)));
      return 0;
    }
    found = shards;
  }
  if (found != 0 && !code) return found;
  error = code ? directory + ": " + code.message()
               : directory + ": no shards " + shard_name(name, 0, 8) + " or the like";
  return 0;
}

}  // namespace

std::string shard_name(const std::string& name, std::size_t shard, std::size_t shards) {
  char numbers[48];
  std::snprintf(numbers, sizeof numbers, "-%05zu-of-%05zu", shard, shards);
  return name + numbers;
}

std::unique_ptr<ImageSource> shard_source(const std::string& directory, const std::string& name,
                                          std::int64_t classes, std::string& error) {
  const std::size_t count = count_shards(directory, name, error);
  if (count == 0) return nullptr;
  std::vector<RecordFile> shards;
  std::size_t records = 0;
  for (std::size_t shard = 0; shard < count; ++shard) {
    std::optional<RecordFile> file =
        RecordFile::open(directory + "/" + shard_name(name, shard, count), error);
    if (!file) return nullptr;
    records += file->size();
    shards.push_back(std::move(*file));
  }
  if (records == 0 || records > kMaxRecordCount) {
    error = directory + ": " + name + " has " + std::to_string(records) + " records";
    return nullptr;
  }
  return std::make_unique<ShardSource>(std::move(shards), classes);
}

}  // namespace hvdrun
