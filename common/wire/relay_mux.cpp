#include "common/wire/relay_mux.h"

#include <algorithm>
#include <utility>

#include "common/base/error.h"

namespace hvdrun {

std::error_code RelayMux::feed(std::string_view bytes, std::vector<Event>& events) {
  if (fault_) return fault_;
  decoder_.feed(bytes);
  while (const auto frame = decoder_.next(fault_))
    if ((fault_ = on_frame(*frame, events))) break;
  return fault_;
}

std::error_code RelayMux::on_frame(const Frame& frame, std::vector<Event>& events) {
  const auto is = [&]<class M>(M& message) {
    return frame.type == M::kType && !decode(frame.payload, message) &&
           static_cast<std::size_t>(message.stream) < kRelayStreams;
  };
  RelayOpen open;
  RelayData data;
  RelayCredit credit;
  RelayEnd end;
  if (is(open)) {
    if (std::exchange(lane(open.stream).open, true)) return Errc::unexpected_message;
    events.push_back({Event::What::opened, open.stream, {}});
  } else if (is(data)) {
    Lane& from = lane(data.stream);
    if (!from.open || from.ended_there) return Errc::unexpected_message;
    if (data.bytes.size() > from.granted) return Errc::limit_exceeded;
    from.granted -= data.bytes.size();
    events.push_back({Event::What::data, data.stream, std::move(data.bytes)});
  } else if (is(credit)) {
    Lane& to = lane(credit.stream);
    if (!to.open || to.credit + credit.bytes > kCredit) return Errc::limit_exceeded;
    to.credit += credit.bytes;
  } else if (is(end)) {
    Lane& from = lane(end.stream);
    if (!from.open || std::exchange(from.ended_there, true)) return Errc::unexpected_message;
    events.push_back({Event::What::ended, end.stream, {}});
  } else {
    return Errc::unexpected_message;
  }
  return {};
}

void RelayMux::open(RelayStream stream) {
  lane(stream).open = true;
  lane(stream).frames.push_back(encode_frame(RelayOpen{stream}));
}

std::size_t RelayMux::may_send(RelayStream stream) const {
  const Lane& to = lanes_[static_cast<std::size_t>(stream)];
  if (!to.open || to.ended_here || to.data_waits) return 0;
  return std::min(to.credit, kMaxPiece);
}

void RelayMux::send(RelayStream stream, std::string bytes) {
  Lane& to = lane(stream);
  to.credit -= bytes.size();
  to.data_waits = true;
  to.frames.push_back(encode_frame(RelayData{stream, std::move(bytes)}));
}

void RelayMux::end(RelayStream stream) {
  if (std::exchange(lane(stream).ended_here, true)) return;
  lane(stream).frames.push_back(encode_frame(RelayEnd{stream}));
}

void RelayMux::taken(RelayStream stream, std::size_t bytes) { lane(stream).owed += bytes; }

std::string RelayMux::next() {
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    Lane& from = lanes_[i];
    // Not for every piece: the channel would carry as many frames back.
    if (from.owed >= kCredit / 4) {
      const auto stream = static_cast<RelayStream>(i);
      const auto bytes = static_cast<std::uint32_t>(std::exchange(from.owed, 0));
      from.granted += bytes;
      return encode_frame(RelayCredit{stream, bytes});
    }
  }
  for (Lane& from : lanes_) {
    if (from.frames.empty()) continue;
    std::string frame = std::move(from.frames.front());
    from.frames.pop_front();
    if (from.frames.empty()) from.data_waits = false;
    return frame;
  }
  return {};
}

}  // namespace hvdrun
