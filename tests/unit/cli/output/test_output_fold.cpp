#include <algorithm>
#include <map>
#include <random>

#include "cli/output/output_fold.h"
#include "cli/output/output_tag.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

using namespace std::chrono_literals;

struct FoldFixture {
  void add(std::uint32_t rank, const std::string& text, OutputStream stream = OutputStream::out) {
    fold.add({rank, stream, false, text}, now);
  }
  std::string take(bool all = false) {
    std::string text;
    for (FoldedLine line; fold.take(now, all, line);)
      text += to_ranges(line.ranks) + (line.partial ? "+" : ":") + line.line;
    return text;
  }
  OutputFold fold{4};
  OutputFold::TimePoint now{};
};

TEST_CASE_METHOD(FoldFixture, "lines of all ranks fold into one, at once", "[output]") {
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    CHECK(take().empty());
    add(rank, "same\n");
  }
  CHECK(take() == "0-3:same\n");
  CHECK(fold.empty());
}

TEST_CASE_METHOD(FoldFixture, "a line waits for its like only so long", "[output]") {
  add(2, "same\n");
  add(0, "same\n");
  add(1, "other\n");
  now += OutputFold::kWindow - 1ms;
  CHECK(take().empty());
  now += 1ms;
  CHECK(take() == "0,2:same\n1:other\n");
  add(3, "same\n");
  now += OutputFold::kWindow;
  CHECK(take() == "3:same\n");
}

TEST_CASE_METHOD(FoldFixture, "lines fold behind others that differ", "[output]") {
  for (std::uint32_t rank = 0; rank < 4; ++rank)
    add(rank, "begin\nrank " + std::to_string(rank) + "\nend\n");
  CHECK(take(true) == "0-3:begin\n0:rank 0\n1:rank 1\n2:rank 2\n3:rank 3\n0-3:end\n");
}

TEST_CASE_METHOD(FoldFixture, "each rank's lines stay in order", "[output]") {
  add(0, "a\nb\na\n");
  add(1, "b\na\nb\n");
  add(2, "a\na\nb\n");
  std::map<int, std::string> by_rank;
  for (FoldedLine line; fold.take(now, true, line);)
    for (const std::uint32_t rank : line.ranks) by_rank[static_cast<int>(rank)] += line.line;
  CHECK(by_rank ==
        std::map<int, std::string>{{0, "a\nb\na\n"}, {1, "b\na\nb\n"}, {2, "a\na\nb\n"}});
}

TEST_CASE_METHOD(FoldFixture, "whatever comes when, no line is lost, doubled or out of order",
                 "[output]") {
  std::mt19937 random(GENERATE(range(1U, 30U)));
  const auto pick = [&](std::uint32_t count) {
    return static_cast<std::uint32_t>(random() % count);
  };
  std::map<std::uint32_t, std::string> in;
  std::map<std::uint32_t, std::string> out;
  const auto drain = [&](bool all) {
    for (FoldedLine line; fold.take(now, all, line);) {
      CHECK(std::is_sorted(line.ranks.begin(), line.ranks.end()));
      for (const std::uint32_t rank : line.ranks) out[rank] += line.line;
    }
  };
  for (int step = 0; step < 500; ++step) {
    const std::uint32_t rank = pick(4);
    std::string text;
    for (std::uint32_t i = pick(4); i-- > 0;)
      text += std::string(1, static_cast<char>('a' + pick(3))) + (pick(9) == 0 ? "" : "\n");
    add(rank, text);
    in[rank] += text;
    now += std::chrono::milliseconds(pick(40));
    drain(false);
    CHECK((fold.empty() || fold.next_due() > now));
  }
  drain(true);
  CHECK(fold.empty());
  CHECK(out == in);
}

TEST_CASE_METHOD(FoldFixture, "streams do not mix, and repeats of one rank stay", "[output]") {
  add(0, "x\nx\n");
  add(1, "x\n");
  add(1, "x\n", OutputStream::err);
  CHECK(take(true) == "0-1:x\n0:x\n1:x\n");
}

TEST_CASE_METHOD(FoldFixture, "parts of a line are not folded", "[output]") {
  add(0, "part");
  add(1, "part");
  CHECK(fold.mid_line(0, OutputStream::out));
  add(0, " end\nx\n");
  add(1, " end\nx\n");
  CHECK_FALSE(fold.mid_line(0, OutputStream::out));
  CHECK(take(true) == "0+part1+part0+ end\n1+ end\n0-1:x\n");
}

TEST_CASE_METHOD(FoldFixture, "what waits is bounded", "[output]") {
  std::size_t taken = 0;
  for (int i = 0; i < 20'000; ++i) {
    add(0, std::to_string(i) + std::string(100, '.') + "\n");
    taken += take().empty() ? 0 : 1;
  }
  CHECK(taken > 18'000);
}

}  // namespace
}  // namespace hvdrun
