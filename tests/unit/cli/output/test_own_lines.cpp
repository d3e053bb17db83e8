#include "cli/output/own_lines.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

using Kind = OwnLines::Kind;

std::string note(std::uint64_t count) { return "(" + std::to_string(count) + ")\n"; }

TEST_CASE("what fits goes on as it is", "[own_lines]") {
  OwnLines lines(10, note);
  CHECK(lines.offer("123456789\n", Kind::news) == "123456789\n");
  CHECK(lines.gone(10).empty());
  CHECK(lines.offer("a\nb\n", Kind::news) == "a\nb\n");
}

TEST_CASE("a block is taken whole or left out whole", "[own_lines]") {
  OwnLines lines(10, note);
  CHECK(lines.offer("123456789\n", Kind::news) == "123456789\n");
  CHECK(lines.offer("a\nb\n", Kind::news).empty());
  CHECK(lines.gone(10) == "(2)\n");
  // Longer than all that may wait.
  const std::string block = "a\n" + std::string(100, 'b') + "\n";
  CHECK(lines.offer(block, Kind::news) == block);
}

TEST_CASE("once a line is left out so are those after it, until half has gone", "[own_lines]") {
  OwnLines lines(10, note);
  CHECK(lines.offer("123456789\n", Kind::news) == "123456789\n");
  CHECK(lines.offer("a\n", Kind::news).empty());
  CHECK(lines.gone(4).empty());
  CHECK(lines.offer("b\n", Kind::news).empty());
  CHECK(lines.gone(1) == "(2)\n");  // in their place, before all that comes
  CHECK(lines.offer("c\n", Kind::news) == "c\n");
  // The note waits too.
  CHECK(lines.offer("d\n", Kind::news).empty());
  CHECK(lines.gone(11) == "(1)\n");
  CHECK(lines.gone(4).empty());
}

TEST_CASE("a verdict is never left out, and comes after the note", "[own_lines]") {
  OwnLines lines(10, note);
  CHECK(lines.offer("123456789\n", Kind::news) == "123456789\n");
  CHECK(lines.offer("a\n", Kind::news).empty());
  CHECK(lines.offer("the end\n", Kind::verdict) == "(1)\nthe end\n");
  CHECK(lines.offer("b\n", Kind::news).empty());
  CHECK(lines.gone(22) == "(1)\n");
}

}  // namespace
}  // namespace hvdrun
