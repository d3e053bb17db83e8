#include "worker/labs/data/images/image_check.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "worker/labs/data/images/image.h"
#include "worker/labs/data/images/image_source.h"

namespace hvdrun {
namespace {

constexpr std::size_t kPage = 4096;
constexpr int kMaxSegments = 200;  // before a JPEG's frame
constexpr std::string_view kPngHead{"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16};
constexpr std::string_view kPngEnd{"\0\0\0\0IEND\xae\x42\x60\x82", 12};

std::size_t number_at(std::string_view bytes, std::size_t at, std::size_t count) {
  std::size_t value = 0;
  for (const char byte : bytes.substr(at, count))
    value = value << 8 | static_cast<unsigned char>(byte);
  return value;
}

bool is_allowed(std::size_t rows, std::size_t columns) {
  return rows > 0 && columns > 0 && rows <= kMaxImageSide && columns <= kMaxImageSide &&
         rows * columns <= kMaxImagePixels;
}

bool png_looks_whole(std::uint64_t size, std::string_view head, const ReadPart& read) {
  return head.size() > 24 && size > 24 + kPngEnd.size() &&
         is_allowed(number_at(head, 20, 4), number_at(head, 16, 4)) &&
         read(size - kPngEnd.size(), kPngEnd.size()) == kPngEnd;
}

bool is_frame(std::size_t marker) {
  return marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
}

// Where the frame's header ends; 0 when there is none that we know.
std::uint64_t end_of_frame(std::string_view head, const ReadPart& read) {
  std::string page(head);
  std::uint64_t begin = 0;  // of the page
  std::uint64_t at = 2;
  for (int segment = 0; segment < kMaxSegments; ++segment) {
    if (at - begin + 9 > page.size()) {
      page = read(at, kPage);
      begin = at;
    }
    const std::string_view rest =
        std::string_view(page).substr(static_cast<std::size_t>(at - begin));
    if (rest.size() < 9 || rest[0] != '\xff') return 0;
    const std::size_t marker = number_at(rest, 1, 1);
    if (is_frame(marker))
      return is_allowed(number_at(rest, 5, 2), number_at(rest, 7, 2)) ? at + 9 : 0;
    if (marker < 0xc0 || marker == 0xff || (marker >= 0xd0 && marker <= 0xda)) return 0;
    at += 2 + number_at(rest, 2, 2);
  }
  return 0;
}

// Cameras write more behind the end than the end itself.
bool jpeg_looks_whole(std::uint64_t size, std::string_view head, const ReadPart& read) {
  const std::uint64_t frame = end_of_frame(head, read);
  if (frame == 0 || frame >= size) return false;
  // Most end with it.
  if (size >= frame + 2 && read(size - 2, 2) == "\xff\xd9") return true;
  const std::uint64_t begin = std::max(frame, size > kPage ? size - kPage : 0);
  return read(begin, static_cast<std::size_t>(size - begin)).rfind("\xff\xd9") != std::string::npos;
}

std::optional<std::string> fault_of(const ImageSource& source, std::size_t index) {
  if (source.looks_whole(index)) return std::nullopt;
  std::string error;
  const std::optional<EncodedImage> image = source.read(index, error);
  if (!image) return error;
  if (decode_image(image->bytes, {}, error)) return std::nullopt;
  return image->place + ": " + error;
}

// Numbers below `count` in an order that is everywhere at once: what there is no time for is spread
// over all of them. Fractions of the golden mean are.
class Spread {
 public:
  explicit Spread(std::size_t count) : count_(count) {
    step_ = std::max<std::size_t>(1, static_cast<std::size_t>(static_cast<double>(count) * 0.618));
    while (std::gcd(step_, count_) > 1) ++step_;
  }
  std::size_t at(std::size_t turn) const { return turn * step_ % count_; }

 private:
  std::size_t count_;
  std::size_t step_ = 1;
};

}  // namespace

bool looks_whole(std::uint64_t size, const ReadPart& read_file) {
  if (size > kMaxImageFile) return false;
  const std::string head = read_file(0, kPage);
  const std::string_view begin = head;
  // A call of the system takes longer than all that is done here with what it gives.
  const ReadPart read = [&](std::uint64_t at, std::size_t count) {
    return at + count <= head.size() ? head.substr(static_cast<std::size_t>(at), count)
                                     : read_file(at, count);
  };
  if (begin.substr(0, kPngHead.size()) == kPngHead) return png_looks_whole(size, begin, read);
  if (begin.substr(0, 3) == "\xff\xd8\xff") return jpeg_looks_whole(size, begin, read);
  return false;
}

bool ImageSource::looks_whole(std::size_t index) const {
  std::string error;
  const std::optional<EncodedImage> image = read(index, error);
  return image &&
         hvdrun::looks_whole(image->bytes.size(), [&](std::uint64_t at, std::size_t count) {
           return image->bytes.substr(std::min(static_cast<std::size_t>(at), image->bytes.size()),
                                      count);
         });
}

BadSamples look_over(const ImageSource& source, const LookOver& how) {
  if (how.part >= source.size()) return {};
  const std::size_t count = (source.size() - how.part + how.parts - 1) / how.parts;
  const Spread order(count);
  std::atomic<std::size_t> turn{0};
  std::mutex mutex;
  std::map<std::size_t, std::string> found;  // by their number
  const auto look = [&] {
    for (std::size_t mine = turn++; mine < count; mine = turn++) {
      if (std::chrono::steady_clock::now() > how.until) return;
      const std::size_t index = how.part + order.at(mine) * how.parts;
      try {
        const std::optional<std::string> fault = fault_of(source, index);
        if (!fault) continue;
        const std::lock_guard lock(mutex);
        found.emplace(index, *fault);
      } catch (const std::exception&) {
        return;  // no memory: nothing is known of the file
      }
    }
  };
  std::vector<std::thread> helpers;
  helpers.reserve(how.threads);
  try {
    while (helpers.size() + 1 < how.threads) helpers.emplace_back(look);
  } catch (const std::exception&) {
    // No more threads: as many as there may be.
  }
  look();
  for (std::thread& helper : helpers) helper.join();
  BadSamples bad;
  for (const auto& [index, line] : found) bad.add(line);
  return bad;
}

}  // namespace hvdrun
