#include "worker/labs/data/files/records.h"

#include <cerrno>
#include <fcntl.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

#include <boost/crc.hpp>

namespace hvdrun {
namespace {

template <class Number>
Number little_endian(std::string_view bytes) {
  Number value = 0;
  for (std::size_t i = sizeof value; i-- > 0;)
    value = static_cast<Number>(value << 8 | static_cast<unsigned char>(bytes[i]));
  return value;
}

template <class Number>
void append(std::string& bytes, Number value) {
  for (std::size_t i = 0; i < sizeof value; ++i)
    bytes.push_back(static_cast<char>(value >> 8 * i & 0xff));
}

// All of it or nothing.
bool read_at(int file, std::uint64_t offset, std::string& bytes, std::string& error) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got =
        ::pread(file, bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      error = got < 0 ? std::generic_category().message(errno) : "the file has become shorter";
      return false;
    }
    done += static_cast<std::size_t>(got);
  }
  return true;
}

std::string place_text(const std::string& path, std::uint64_t offset) {
  return path + ": record at byte " + std::to_string(offset) + ": ";
}

#if defined(__x86_64__)
// The processor's instruction: a tenth of what a table takes, which is as much as a seventh of
// decoding a JPEG.
__attribute__((target("sse4.2"))) std::uint32_t crc32c_of_processor(std::string_view bytes) {
  std::uint64_t crc = 0xffffffff;
  for (; bytes.size() >= 8; bytes.remove_prefix(8))
    crc = __builtin_ia32_crc32di(crc, little_endian<std::uint64_t>(bytes.substr(0, 8)));
  auto rest = static_cast<std::uint32_t>(crc);
  for (const char byte : bytes)
    rest = __builtin_ia32_crc32qi(rest, static_cast<unsigned char>(byte));
  return ~rest;
}
#endif

std::uint32_t crc32c(std::string_view bytes) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2") != 0) return crc32c_of_processor(bytes);
#endif
  boost::crc_optimal<32, 0x1edc6f41, 0xffffffff, 0xffffffff, true, true> crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return crc.checksum();
}

}  // namespace

std::uint32_t masked_crc32c(std::string_view bytes) {
  const std::uint32_t value = crc32c(bytes);
  return (value >> 15 | value << 17) + 0xa282ead8U;
}

std::string encode_record(std::string_view data) {
  std::string bytes;
  bytes.reserve(kRecordHeader + data.size() + kRecordTrailer);
  append(bytes, std::uint64_t{data.size()});
  append(bytes, masked_crc32c(bytes));
  bytes.append(data);
  append(bytes, masked_crc32c(data));
  return bytes;
}

std::optional<std::uint64_t> record_length(std::string_view bytes, std::string& error) {
  const std::string_view length = bytes.substr(0, 8);
  if (little_endian<std::uint32_t>(bytes.substr(8, 4)) != masked_crc32c(length)) {
    error = "the checksum of its length is wrong; not a file of records, or damaged here";
    return std::nullopt;
  }
  const auto value = little_endian<std::uint64_t>(length);
  if (value > kMaxRecordBytes) {
    error = std::to_string(value) + " bytes announced, at most " + std::to_string(kMaxRecordBytes) +
            " expected";
    return std::nullopt;
  }
  return value;
}

bool check_record(std::string_view bytes, std::string& error) {
  const std::size_t length = bytes.size() - kRecordTrailer;
  if (little_endian<std::uint32_t>(bytes.substr(length)) == masked_crc32c(bytes.substr(0, length)))
    return true;
  error = "the checksum of its " + std::to_string(length) + " bytes is wrong";
  return false;
}

namespace {

// A descriptor for as long as it lives; below 0 with `error`.
class OpenFile {
 public:
  // Without O_NONBLOCK a pipe named by mistake would block.
  OpenFile(const std::string& path, std::string& error)
      : file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (file_ < 0) error = path + ": " + std::generic_category().message(errno);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile() {
    if (file_ >= 0) ::close(file_);
  }
  int get() const { return file_; }

 private:
  int file_;
};

// The packing by TensorFlow's writer of a file whose first bytes are no record's; empty: none.
std::string_view packed_kind(std::string_view head) {
  if (head.substr(0, 3) == "\x1f\x8b\x08") return "GZIP";
  const auto flags = static_cast<unsigned char>(head[1]);
  return head[0] == '\x78' && (0x7800U + flags) % 31 == 0 ? "ZLIB" : "";
}

}  // namespace

std::optional<RecordFile> RecordFile::open(const std::string& path, std::string& error) {
  const OpenFile opened(path, error);
  if (opened.get() < 0) return std::nullopt;
  struct stat status {};
  if (::fstat(opened.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    error = path + ": not a regular file";
    return std::nullopt;
  }
  RecordFile file(path);
  if (!file.find_places(opened.get(), static_cast<std::uint64_t>(status.st_size), error))
    return std::nullopt;
  return file;
}

bool RecordFile::find_places(int file, std::uint64_t bytes, std::string& error) {
  std::string header(kRecordHeader, '\0');
  for (std::uint64_t at = 0; at < bytes;) {
    std::string why;
    const std::uint64_t left = bytes - at;
    if (places_.size() == kMaxRecords)
      why = "more than " + std::to_string(kMaxRecords) + " records";
    else if (left < kRecordHeader + kRecordTrailer)
      why = "the file ends after " + std::to_string(left) + " bytes of it";
    else if (read_at(file, at, header, why))
      if (const auto length = record_length(header, why)) {
        const std::uint64_t whole = kRecordHeader + *length + kRecordTrailer;
        if (whole <= left) {
          places_.push_back({at, *length});
          at += whole;
          continue;
        }
        why = "the file ends after " + std::to_string(left) + " of its " + std::to_string(whole) +
              " bytes";
      }
    if (const std::string_view kind = at == 0 ? packed_kind(header) : ""; !kind.empty()) {
      error = path_ + ": packed with ";
      error.append(kind).append(" as a whole, so that single records cannot be found; ");
      error += kind == "GZIP" ? "gzip -dc unpacks it" : "write it without a compression_type";
      return false;
    }
    error = place_text(path_, at) + why;
    return false;
  }
  return true;
}

std::optional<std::string> RecordFile::read(std::size_t index, std::string& error) const {
  const Place& place = places_[index];
  std::string bytes(static_cast<std::size_t>(place.length) + kRecordTrailer, '\0');
  const OpenFile opened(path_, error);
  if (opened.get() < 0) return std::nullopt;
  if (!read_at(opened.get(), place.offset + kRecordHeader, bytes, error) ||
      !check_record(bytes, error)) {
    error.insert(0, place_text(path_, place.offset));
    return std::nullopt;
  }
  bytes.resize(static_cast<std::size_t>(place.length));
  return bytes;
}

}  // namespace hvdrun
