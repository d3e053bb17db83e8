#include "worker/agent/ranks/peer_loss.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace hvdrun {
namespace {

// The speaker and its words: both must be in one line. Either alone may come from anything.
constexpr std::array<std::string_view, 5> kSpeakers = {
    "HorovodInternalError", "gloo/transport/", "gloo::IoException", "gloo/http_store", "NCCL"};
struct News {
  std::string_view words;
  Errc code;
};
constexpr std::array<News, 6> kNews = {{{"Connection closed by peer", Errc::peer_lost},
                                        {"Connection reset by peer", Errc::peer_lost},
                                        {"Horovod has been shut down", Errc::peer_lost},
                                        {"remote process exited", Errc::peer_lost},
                                        {"ncclRemoteError", Errc::peer_lost},
                                        {"Wait timeout after", Errc::timeout}}};

template <std::size_t N>
bool has_any(std::string_view line, const std::array<std::string_view, N>& words) {
  return std::any_of(words.begin(), words.end(), [line](std::string_view word) {
    return line.find(word) != std::string_view::npos;
  });
}

}  // namespace

PeerLossLine find_peer_loss(std::string_view text) {
  PeerLossLine found;
  for (const auto& [words, code] : kNews) {
    for (auto at = text.find(words); at != std::string_view::npos; at = text.find(words, at + 1)) {
      const auto before = text.find_last_of("\r\n", at);
      const auto begin = before == std::string_view::npos ? 0 : before + 1;
      const std::string_view line =
          text.substr(begin, std::min(text.find_first_of("\r\n", at), text.size()) - begin);
      if ((found.line.empty() || line.data() > found.line.data()) && has_any(line, kSpeakers))
        found = {line, code};
    }
  }
  return found;
}

}  // namespace hvdrun
