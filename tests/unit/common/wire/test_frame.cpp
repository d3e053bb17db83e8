#include "common/wire/frame.h"
#include "common/wire/messages.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

RankExited sample_exit() {
  RankExited message;
  message.rank = 3;
  message.pid = 4711;
  message.kind = ExitKind::signaled;
  message.value = 9;
  message.after_kill = true;
  message.detail = "why";
  return message;
}

TEST_CASE("a frame survives any split of its bytes", "[frame]") {
  std::string bytes = encode_frame(sample_exit(), 7);
  append_frame(bytes, MessageType::heartbeat, 8, {});
  for (std::size_t split = 0; split <= bytes.size(); ++split) {
    CAPTURE(split);
    FrameDecoder decoder;
    std::error_code ec;
    std::vector<Frame> frames;
    for (const auto& part : {bytes.substr(0, split), bytes.substr(split)}) {
      decoder.feed(part);
      while (auto frame = decoder.next(ec)) frames.push_back(*frame);
      REQUIRE_FALSE(ec);
    }
    REQUIRE(frames.size() == 2);
    CHECK(frames[0].epoch == 7);
    CHECK(frames[1].type == MessageType::heartbeat);
    CHECK_FALSE(decoder.mid_frame());
    RankExited back;
    REQUIRE_FALSE(decode(frames[0].payload, back));
    CHECK(back.pid == 4711);
    CHECK(back.kind == ExitKind::signaled);
    CHECK(back.after_kill);
    CHECK(back.detail == "why");
  }
}

TEST_CASE("every truncated prefix of a message is malformed", "[frame]") {
  const std::string payload = encode(sample_exit());
  for (std::size_t size = 0; size < payload.size(); ++size) {
    RankExited back;
    CHECK(decode(std::string_view(payload).substr(0, size), back) == Errc::malformed);
  }
  RankExited back;
  CHECK(decode(payload + "x", back) == Errc::malformed);
}

TEST_CASE("a header over the limit or with a non-zero reserved field ends the stream", "[frame]") {
  std::error_code ec;
  FrameDecoder large;
  large.feed(std::string("\xff\xff\xff\xff\0\1\0\0\0\0\0\0", 12));
  CHECK_FALSE(large.next(ec));
  CHECK(ec == Errc::frame_too_large);
  large.feed(encode_frame(sample_exit()));
  CHECK_FALSE(large.next(ec));
  CHECK(ec == Errc::frame_too_large);

  FrameDecoder reserved;
  reserved.feed(std::string("\0\0\0\0\0\1\0\1\0\0\0\0", 12));
  CHECK_FALSE(reserved.next(ec));
  CHECK(ec == Errc::malformed);
}

TEST_CASE("a count larger than the bytes that follow takes no memory", "[frame]") {
  Launch message;
  std::string payload(12, '\0');
  payload += std::string("\x00\x01\xff\xff", 4);  // slots: 131071, none of them there
  CHECK(decode(payload, message) == Errc::malformed);
  payload.replace(12, 4, "\xff\xff\xff\xff");
  CHECK(decode(payload, message) == Errc::limit_exceeded);
}

}  // namespace
}  // namespace hvdrun
