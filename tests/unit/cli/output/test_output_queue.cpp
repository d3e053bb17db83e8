#include "cli/output/output_queue.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

OutputItem piece(std::uint32_t rank, const std::string& text,
                 OutputItem::Kind kind = OutputItem::Kind::output) {
  return {kind, {rank, OutputStream::out, false, text}};
}

std::string drain(OutputQueue& queue) {
  std::string text;
  while (const auto item = queue.pop()) text += item->message.bytes + " ";
  return text;
}

TEST_CASE("ranks are served in turn, each in order", "[output]") {
  OutputQueue queue;
  for (const char* text : {"a1", "a2", "a3", "a4"}) queue.push(piece(0, text));
  queue.push(piece(1, "b1"));
  queue.push(piece(2, "c1"));
  queue.push(piece(2, "c2"));
  CHECK(drain(queue) == "a1 b1 c1 a2 c2 a3 a4 ");
  CHECK(queue.empty());
}

TEST_CASE("a rank's next one may be taken out of its turn", "[output]") {
  OutputQueue queue;
  for (const char* text : {"a1", "a2"}) queue.push(piece(0, text));
  for (const char* text : {"b1", "b2", "b3"}) queue.push(piece(1, text));
  CHECK(queue.pop_of(1)->message.bytes == "b1");
  CHECK(queue.pop_of(1)->message.bytes == "b2");
  CHECK_FALSE(queue.pop_of(2));
  CHECK(drain(queue) == "a1 b3 a2 ");
  queue.push(piece(2, "c1"));
  CHECK(queue.pop_of(2)->message.bytes == "c1");
  CHECK(queue.empty());
  CHECK_FALSE(queue.pop_of(2));
}

TEST_CASE("a notice comes after what was there before it", "[output]") {
  OutputQueue queue;
  queue.push(piece(0, "a1"));
  queue.push(piece(1, "b1"));
  queue.push(piece(1, "b2"));
  queue.push(piece(0, "notice", OutputItem::Kind::notice));
  queue.push(piece(0, "a2"));
  CHECK(drain(queue) == "a1 b1 a2 b2 notice ");
  queue.push(piece(0, "alone", OutputItem::Kind::notice));
  CHECK_FALSE(queue.empty());
  CHECK(drain(queue) == "alone ");
}

}  // namespace
}  // namespace hvdrun
