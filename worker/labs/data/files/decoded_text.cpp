#include "worker/labs/data/files/decoded_text.h"

#include <algorithm>
#include <utility>

#include "worker/labs/data/files/gzip.h"
#include "worker/labs/data/files/whole_file.h"

namespace hvdrun {
namespace {

constexpr std::size_t kLookedAt = 4096;  // bytes: what is binary has a zero among them

// A kind of file, known by its first bytes, and the command that makes text of it. %: its name.
struct Kind {
  std::string_view begin;
  const char* what;
  const char* cure;
};

using namespace std::string_view_literals;
// UTF-32's mark begins as one of UTF-16 does.
constexpr Kind kKinds[] = {
    {"\xff\xfe\0\0"sv, "text in UTF-32", "iconv -f UTF-32 -t UTF-8 % makes UTF-8 of it"},
    {"\0\0\xfe\xff"sv, "text in UTF-32", "iconv -f UTF-32 -t UTF-8 % makes UTF-8 of it"},
    {"\xff\xfe"sv, "text in UTF-16", "iconv -f UTF-16 -t UTF-8 % makes UTF-8 of it"},
    {"\xfe\xff"sv, "text in UTF-16", "iconv -f UTF-16 -t UTF-8 % makes UTF-8 of it"},
    {"PK\3\4"sv, "a zip archive or a workbook", "unzip % unpacks the one, save the other as CSV"},
    {"PK\5\6"sv, "an empty zip archive", "text is expected"},
    {"BZh"sv, "packed by bzip2", "bunzip2 % unpacks it"},
    {"\xfd"
     "7zXZ"sv,
     "packed by xz", "unxz % unpacks it"},
    {"\x28\xb5\x2f\xfd"sv, "packed by zstd", "unzstd % unpacks it"},
    {"7z\xbc\xaf\x27\x1c"sv, "a 7z archive", "7z x % unpacks it"},
    {"PAR1"sv, "a Parquet file", "write it as CSV"},
    {"SQLite format 3\0"sv, "a database of SQLite", "write the table as CSV"},
};

// Bytes that are text in no encoding that we read; empty: there is none of them.
std::string fault_of(std::string_view name, std::string_view bytes) {
  const auto fault = [&](const char* what, std::string_view cure) {
    std::string text = std::string(name) + ": " + what + "; ";
    for (const char c : cure) text += c == '%' ? std::string(name) : std::string(1, c);
    return text;
  };
  for (const Kind& kind : kKinds)
    if (bytes.substr(0, kind.begin.size()) == kind.begin) return fault(kind.what, kind.cure);
  const std::string_view looked_at = bytes.substr(0, kLookedAt);
  const std::size_t zero = looked_at.find('\0');
  if (zero == std::string_view::npos) return {};
  // Without a mark the zeros tell: of the letters of most languages one byte of two.
  std::size_t zeros[2] = {};
  for (std::size_t i = 0; i < looked_at.size(); ++i) zeros[i % 2] += looked_at[i] == '\0';
  const std::size_t few = looked_at.size() / 20;
  const std::size_t many = looked_at.size() / 4;
  if (zeros[0] <= few && zeros[1] > many)
    return fault("text in UTF-16", "iconv -f UTF-16LE -t UTF-8 % makes UTF-8 of it");
  if (zeros[1] <= few && zeros[0] > many)
    return fault("text in UTF-16", "iconv -f UTF-16BE -t UTF-8 % makes UTF-8 of it");
  return std::string(name) + ": byte " + std::to_string(zero) +
         " is zero, as none of a text is; a text file is expected";
}

}  // namespace

std::optional<std::string> decode_text(std::string_view name, std::string bytes, std::size_t limit,
                                       std::string& error) {
  std::string text;
  if (looks_like_gzip(bytes)) {
    const GunzipResult result = gunzip(bytes, limit, text, error);
    if (result == GunzipResult::limit_reached)
      error = "unpacked more than the " + std::to_string(limit) + " bytes expected at most";
    if (result != GunzipResult::complete) {
      error.insert(0, std::string(name) + ": ");
      return std::nullopt;
    }
  } else {
    text = std::move(bytes);
  }
  error = fault_of(name, text);
  if (!error.empty()) return std::nullopt;
  return text;
}

std::optional<std::string> read_text_file(const std::string& path, std::size_t limit,
                                          std::string& error) {
  std::optional<std::string> bytes = read_whole_file(path, limit, error);
  if (!bytes) return std::nullopt;
  return decode_text(path, std::move(*bytes), limit, error);
}

}  // namespace hvdrun
