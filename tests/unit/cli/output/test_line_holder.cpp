#include <algorithm>
#include <map>
#include <random>

#include "cli/output/line_holder.h"
#include "tests/catch.h"
#include "tests/soak.h"

namespace hvdrun {
namespace {

using namespace std::chrono_literals;

constexpr auto kOut = OutputStream::out;
constexpr auto kErr = OutputStream::err;

struct HolderFixture {
  // The part of a console: it knows whose line is the last one, and whether that goes on.
  void show(const Output& piece) {
    shown.push_back({piece.rank, piece.bytes});
    const bool ended = piece.bytes.ends_with('\n') || piece.bytes.ends_with('\r');
    open = ended ? std::nullopt : std::optional(std::pair(piece.rank, piece.stream));
  }
  void add(std::uint32_t rank, std::string bytes, OutputStream stream = kOut) {
    const bool is_open = open == std::pair(rank, stream);
    holder.add({rank, stream, false, std::move(bytes)}, is_open, now);
  }
  // Everything shown since the last call, as "rank:bytes" with | between two pieces.
  std::string take() {
    std::string text;
    for (const auto& [rank, bytes] : shown)
      text += (text.empty() ? "" : "|") + std::to_string(rank) + ":" + bytes;
    shown.clear();
    return text;
  }

  std::vector<std::pair<std::uint32_t, std::string>> shown;
  std::optional<std::pair<std::uint32_t, OutputStream>> open;
  std::shared_ptr<HeldBytes> held = std::make_shared<HeldBytes>();
  LineHolder holder{held, [this](const Output& piece) { show(piece); }};
  LineHolder::TimePoint now{};
};

TEST_CASE_METHOD(HolderFixture, "whole lines pass through as one block", "[output]") {
  add(0, "a\nb\nc\n");
  CHECK(take() == "0:a\nb\nc\n");
  add(1, "10%\r20%\r");
  CHECK(take() == "1:10%\r20%\r");
  CHECK(holder.empty());
  CHECK(held->used == 0);
}

TEST_CASE_METHOD(HolderFixture, "an unfinished line is shown with its end, not between others'",
                 "[output]") {
  add(0, "a\nbeg");
  CHECK(take() == "0:a\n");
  CHECK(held->used > 0);
  add(1, "other\n");
  add(0, "err\n", kErr);
  add(0, "in");
  CHECK(take() == "1:other\n|0:err\n");
  add(0, "ning\nnext\rand");
  CHECK(take() == "0:begin|0:ning\nnext\r");
  holder.end(0, kErr);
  CHECK(take().empty());
  holder.end(0, kOut);
  CHECK(take() == "0:and");
  CHECK(holder.empty());
  CHECK(held->used == 0);
}

TEST_CASE_METHOD(HolderFixture, "a line that does not end is shown when its time is over",
                 "[output]") {
  add(0, "step 1 ");
  now += 1s;
  add(1, "name? ");
  add(0, "...");
  CHECK(holder.next_due() == LineHolder::TimePoint() + LineHolder::kPatience);
  now = holder.next_due() - 1ms;
  CHECK_FALSE(holder.show_due(now, false));
  now += 1ms;
  CHECK(holder.show_due(now, false));
  CHECK_FALSE(holder.show_due(now, false));
  CHECK(take() == "0:step 1 ...");
  // Nothing has come after it: it goes on where it is.
  add(0, " ok");
  CHECK(take() == "0: ok");
  add(2, "x\n");
  add(0, " done");
  CHECK(take() == "2:x\n");
  add(0, "\n");
  CHECK(take() == "0: done|0:\n");
  CHECK(holder.show_due(now, true));
  CHECK(take() == "1:name? ");
  CHECK_FALSE(holder.show_due(now, true));
}

TEST_CASE_METHOD(HolderFixture, "a question waits for a moment only", "[output]") {
  holder.set_patience(1, 50ms);
  add(0, "dots");
  add(1, "name? ");
  now += 50ms;
  CHECK(holder.show_due(now, false));
  CHECK(take() == "1:name? ");
  CHECK_FALSE(holder.show_due(now, false));
}

TEST_CASE_METHOD(HolderFixture, "a line over the limit is shown in parts of that length",
                 "[output]") {
  const std::string piece(10'000, 'x');
  std::size_t added = 0;
  while (shown.empty()) {
    add(0, piece);
    added += piece.size();
    REQUIRE(added < LineHolder::kMaxLine + piece.size());
  }
  CHECK(added >= LineHolder::kMaxLine);
  std::string text;
  for (const auto& [rank, bytes] : shown) text += bytes;
  CHECK(text == std::string(added, 'x'));
  CHECK(shown.size() < added / piece.size() + 2);
  CHECK(held->used == 0);
}

TEST_CASE_METHOD(HolderFixture, "bytes that come one by one cost no piece each", "[output]") {
  for (int i = 0; i < 100'000; ++i) add(0, "x");
  CHECK(held->used < 300'000);
  add(0, "\n");
  CHECK(shown.size() < 20);
}

TEST_CASE_METHOD(HolderFixture, "where too much is unfinished the longest are shown in parts",
                 "[output]") {
  held->limit = 1'000'000;
  std::string elsewhere;
  LineHolder other(held, [&](const Output& piece) { elsewhere += piece.bytes; });
  other.add({0, kErr, false, std::string(300'000, 'e')}, false, now);
  add(0, std::string(200'000, 'a'));
  add(1, std::string(400'000, 'b'));
  CHECK(take().empty());
  CHECK(held->used > 900'000);
  add(2, std::string(150'000, 'c'));
  CHECK(take() == "1:" + std::string(400'000, 'b'));
  CHECK(held->used < held->limit);
  // Its own line is the longest then.
  add(3, std::string(600'000, 'd'));
  CHECK(take() == "3:" + std::string(600'000, 'd'));
  CHECK(elsewhere.empty());
  // The longest is one of the other console.
  add(4, std::string(250'000, 'd'));
  add(5, std::string(200'000, 'd'));
  CHECK(take().empty());
  const bool all = elsewhere == std::string(300'000, 'e');
  CHECK(all);
}

TEST_CASE_METHOD(HolderFixture, "a long line that goes on when its time is over has it once more",
                 "[output]") {
  add(0, std::string(70'000, 'a'));
  add(1, "...");
  CHECK_FALSE(holder.due(now + LineHolder::kPatience - 1ms));
  now += LineHolder::kPatience;
  // The console was busy until now; both ranks have written meanwhile.
  CHECK(holder.due(now) == 0);
  add(0, std::string(70'000, 'a'));
  CHECK(holder.due(now) == 1);
  add(1, ".");
  CHECK(holder.due(now) == 1);
  CHECK(holder.show_due(now, false));
  CHECK(take() == "1:....");
  CHECK_FALSE(holder.due(now));
  CHECK(holder.next_due() == now + LineHolder::kPatience);
  add(0, "a\n");
  CHECK(take() == "0:" + std::string(70'000, 'a') + "|0:" + std::string(70'000, 'a') + "|0:a\n");
}

// The text that `rank` writes as its line number `number`: its bytes tell where they belong.
std::string line_of(std::uint32_t rank, std::uint32_t number, std::size_t length) {
  return std::to_string(rank) + "." + std::to_string(number) + ":" +
         std::string(length, static_cast<char>('a' + rank % 26)) + (number % 5 == 4 ? "\r" : "\n");
}

TEST_CASE("no line is torn and no byte lost, however they are cut and mixed", "[output]") {
  std::mt19937_64 random(test::soak_seed("line holder"));
  const std::size_t rounds = std::max<std::size_t>(1, test::soak_count(50));
  constexpr std::uint32_t kRanks = 8;
  for (std::size_t round = 0; round < rounds; ++round) {
    std::string console;
    std::optional<std::uint32_t> open;
    const auto held = std::make_shared<HeldBytes>();
    LineHolder holder(held, [&](const Output& piece) {
      // Another's line that is still open would be torn here.
      if (open && *open != piece.rank) FAIL("rank " << piece.rank << " tears a line of " << *open);
      console += piece.bytes;
      open = piece.rank;
      if (piece.bytes.ends_with('\n') || piece.bytes.ends_with('\r')) open.reset();
    });
    std::map<std::uint32_t, std::string> written;
    for (std::uint32_t rank = 0; rank < kRanks; ++rank)
      for (std::uint32_t number = 0; number < 30; ++number)
        written[rank] +=
            line_of(rank, number, number % 7 == 0 ? random() % 100'000 : random() % 50);
    auto left = written;
    while (!left.empty()) {
      auto rank = left.begin();
      std::advance(rank, static_cast<std::ptrdiff_t>(random() % left.size()));
      const std::size_t size = std::min<std::size_t>(1 + random() % 30'000, rank->second.size());
      holder.add({rank->first, kOut, false, rank->second.substr(0, size)}, open == rank->first, {});
      CHECK(held->used < kRanks * (LineHolder::kMaxLine + 100'000));
      rank->second.erase(0, size);
      if (rank->second.empty()) left.erase(rank);
    }
    REQUIRE(holder.empty());
    REQUIRE(held->used == 0);
    std::map<std::uint32_t, std::string> seen;
    for (std::size_t begin = 0; begin < console.size();) {
      const std::size_t end = console.find_first_of("\n\r", begin) + 1;
      REQUIRE(end > begin);
      const auto rank = static_cast<std::uint32_t>(std::stoul(console.substr(begin, 4)));
      seen[rank] += console.substr(begin, end - begin);
      begin = end;
    }
    const bool same = seen == written;  // not printed when they differ
    CHECK(same);
  }
}

}  // namespace
}  // namespace hvdrun
