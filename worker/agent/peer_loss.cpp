#include "worker/agent/peer_loss.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace hvdrun {
namespace {

// Who speaks, and what it says: both must be in one line. Either alone may come from anything.
constexpr std::array<std::string_view, 4> kSpeakers = {"HorovodInternalError", "gloo/transport/",
                                                       "gloo::IoException", "NCCL"};
constexpr std::array<std::string_view, 5> kNews = {
    "Connection closed by peer", "Connection reset by peer", "Horovod has been shut down",
    "remote process exited", "ncclRemoteError"};

template <std::size_t N>
bool has_any(std::string_view line, const std::array<std::string_view, N>& words) {
  return std::any_of(words.begin(), words.end(), [line](std::string_view word) {
    return line.find(word) != std::string_view::npos;
  });
}

}  // namespace

std::string_view peer_loss_line(std::string_view text) {
  std::string_view found;
  for (const std::string_view news : kNews) {
    for (auto at = text.find(news); at != std::string_view::npos; at = text.find(news, at + 1)) {
      const auto before = text.find_last_of("\r\n", at);
      const auto begin = before == std::string_view::npos ? 0 : before + 1;
      const std::string_view line =
          text.substr(begin, std::min(text.find_first_of("\r\n", at), text.size()) - begin);
      if ((found.empty() || line.data() > found.data()) && has_any(line, kSpeakers)) found = line;
    }
  }
  return found;
}

}  // namespace hvdrun
