// Files of records in TensorFlow's framing (TFRecord shards, event files): a little-endian 64-bit
// length, the masked CRC-32C of those eight bytes, the data, the masked CRC-32C of the data.
//
// C++17: the labs include this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hvdrun {

inline constexpr std::size_t kRecordHeader = 12;
inline constexpr std::size_t kRecordTrailer = 4;
// An image of the largest size that is decoded is far below this.
inline constexpr std::uint64_t kMaxRecordBytes = std::uint64_t{64} << 20;
inline constexpr std::size_t kMaxRecords = 50'000'000;  // of one file

// The framing's checksum of `bytes`.
std::uint32_t masked_crc32c(std::string_view bytes);
// One record, framed.
std::string encode_record(std::string_view data);

// The length of the data behind the header `bytes` (kRecordHeader of them); none, and `error` says
// why, when the checksum is wrong or the length over the limit.
std::optional<std::uint64_t> record_length(std::string_view bytes, std::string& error);
// `bytes`: the data and its trailer.
bool check_record(std::string_view bytes, std::string& error);

// A file of records in any order: where they are is found out once, by their headers; the data is
// read and checked when it is asked for. Any thread may read. Between reads the file is closed:
// sets have more shards than a process may have files open.
class RecordFile {
 public:
  // None, and `error` names the file and the offset, when it cannot be read or a header is wrong. A
  // last record that is cut off is wrong, too.
  static std::optional<RecordFile> open(const std::string& path, std::string& error);

  std::size_t size() const { return places_.size(); }
  const std::string& path() const { return path_; }
  // The data of record `index` below size(). None, and `error` names the file and the record's
  // offset, when it cannot be read or its checksum is wrong.
  std::optional<std::string> read(std::size_t index, std::string& error) const;

 private:
  struct Place {
    std::uint64_t offset = 0;  // of the header
    std::uint64_t length = 0;  // of the data
  };
  explicit RecordFile(std::string path) : path_(std::move(path)) {}
  bool find_places(int file, std::uint64_t bytes, std::string& error);

  std::string path_;
  std::vector<Place> places_;
};

}  // namespace hvdrun
