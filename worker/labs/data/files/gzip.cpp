#include "worker/labs/data/files/gzip.h"

#include <algorithm>
#include <limits>
#include <new>
#include <stdexcept>
#include <zlib.h>

namespace hvdrun {
namespace {

constexpr int kGzipOnly = 15 + 16;
constexpr std::size_t kChunk = std::size_t{1} << 16;
// avail_in and avail_out are unsigned int.
constexpr std::size_t kMaxStep = std::numeric_limits<unsigned>::max() / 2;

class Inflater {
 public:
  Inflater() {
    if (inflateInit2(&stream_, kGzipOnly) != Z_OK) throw std::bad_alloc();
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  z_stream* operator->() { return &stream_; }
  z_stream* get() { return &stream_; }

 private:
  z_stream stream_{};
};

// zlib does not write through next_in, but its type is not const.
Bytef* input_pointer(std::string_view bytes) {
  return const_cast<Bytef*>(reinterpret_cast<const Bytef*>(bytes.data()));
}

}  // namespace

bool looks_like_gzip(std::string_view bytes) {
  return bytes.size() >= 2 && bytes[0] == '\x1f' && bytes[1] == '\x8b';
}

GunzipResult gunzip(std::string_view bytes, std::size_t limit, std::string& output,
                    std::string& error) {
  output.clear();
  const std::size_t whole = bytes.size();
  const auto place = [&] { return " at byte " + std::to_string(whole - bytes.size()); };
  Inflater inflater;
  std::string chunk(kChunk, '\0');
  for (;;) {
    const std::size_t step = std::min(bytes.size(), kMaxStep);
    inflater->next_in = input_pointer(bytes);
    inflater->avail_in = static_cast<unsigned>(step);
    inflater->next_out = reinterpret_cast<Bytef*>(chunk.data());
    inflater->avail_out = static_cast<unsigned>(chunk.size());
    const int code = inflate(inflater.get(), Z_NO_FLUSH);
    bytes.remove_prefix(step - inflater->avail_in);
    const std::size_t produced = chunk.size() - inflater->avail_out;
    if (produced > limit - output.size()) {
      output.append(chunk, 0, limit - output.size());
      return GunzipResult::limit_reached;
    }
    output.append(chunk, 0, produced);
    if (code == Z_STREAM_END) {
      if (bytes.find_first_not_of('\0') == std::string_view::npos) return GunzipResult::complete;
      if (!looks_like_gzip(bytes)) {
        error = std::to_string(bytes.size()) + " bytes of garbage after the gzip data," + place();
        return GunzipResult::failed;
      }
      inflateReset(inflater.get());
    } else if (code == Z_BUF_ERROR || (code == Z_OK && bytes.empty() && produced == 0)) {
      error = "the gzip data ends too early," + place();
      return GunzipResult::failed;
    } else if (code != Z_OK) {
      error = "corrupt gzip data" + place();
      if (inflater->msg != nullptr) error += std::string(" (") + inflater->msg + ")";
      return GunzipResult::failed;
    }
  }
}

std::string gzip(std::string_view bytes) {
  z_stream stream{};
  if (deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, kGzipOnly, 9, Z_DEFAULT_STRATEGY) !=
      Z_OK) {
    throw std::bad_alloc();
  }
  std::string output(deflateBound(&stream, bytes.size()), '\0');
  if (bytes.size() > kMaxStep || output.size() > kMaxStep) {
    deflateEnd(&stream);
    throw std::length_error("gzip: more than 2 GiB at once");
  }
  stream.next_in = input_pointer(bytes);
  stream.avail_in = static_cast<unsigned>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(output.data());
  stream.avail_out = static_cast<unsigned>(output.size());
  const int code = deflate(&stream, Z_FINISH);
  output.resize(output.size() - stream.avail_out);
  deflateEnd(&stream);
  if (code != Z_STREAM_END) throw std::runtime_error("gzip: deflate did not finish");
  return output;
}

}  // namespace hvdrun
