#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/unit/worker/hvd/torch/catch_with_torch.h"
#include "worker/labs/report/progress_bar.h"

namespace hvdrun {
namespace {

// Without its escape sequences.
std::string shown_by(ProgressBar& bar, std::size_t done, std::size_t steps, double loss,
                     ProgressBar::Time now, const std::string& label = "epoch 1/2") {
  const std::string text = bar.draw(label, done, steps, loss, now);
  return text.empty() ? text : text.substr(1, text.size() - 4);
}

TEST_CASE("the bar is redrawn ten times a second at most and leaves its line empty", "[bar]") {
  using std::chrono::milliseconds;
  ProgressBar bar(71);
  const ProgressBar::Time start{};
  CHECK(bar.clear().empty());
  CHECK(bar.draw("epoch 1/2", 1, 4, 0.5, start) ==
        "\repoch 1/2 [#######.......................] 1/4  loss 0.5000  -:-- left\x1b[K");
  int drawn = 0;
  for (int ms = 1; ms <= 1000; ++ms)
    if (!bar.draw("epoch 1/2", 2, 4, 0.5, start + milliseconds(ms)).empty()) ++drawn;
  CHECK(drawn == 10);
  CHECK(bar.clear() == "\r\x1b[K");
  CHECK(bar.clear().empty());
}

TEST_CASE("the bar fits into any line, and says what has room", "[bar]") {
  // Never longer than the line, or it could not be taken back.
  const ProgressBar::Time start{};
  for (const auto terminal : {ProgressBar::Terminal::own, ProgressBar::Terminal::of_hvdrun}) {
    for (const double loss : {0.5, 1e300, std::nan("")}) {
      for (std::size_t columns = 0; columns < 300; ++columns) {
        ProgressBar bar(columns, terminal);
        std::string text = bar.draw("epoch 17/1000", 1, 123'456, loss, start);
        text += bar.clear() + bar.draw("epoch 17/1000", 2, 123'456, loss, start);
        CAPTURE(columns, loss, text);
        std::size_t widest = 0;
        std::size_t width = 0;
        for (std::size_t i = 0; i < text.size(); ++i) {
          if (text[i] == '\r')
            width = 0;
          else if (text.compare(i, 3, "\x1b[K") == 0)
            i += 2;
          else
            widest = std::max(widest, ++width);
        }
        CHECK(widest <= (columns > 0 ? columns - 1 : 0));
      }
    }
  }
  const auto at = [&](std::size_t columns) {
    ProgressBar bar(columns);
    return shown_by(bar, 12, 938, 0.5, start, "epoch 1/10");
  };
  CHECK(at(80) == "epoch 1/10 [..............................] 12/938  loss 0.5000  -:-- left");
  CHECK(at(47) == "epoch 1/10 12/938  loss 0.5000  -:-- left");
  CHECK(at(40) == "epoch 1/10 12/938  -:-- left");
  CHECK(at(20) == "12/938  -:-- left");
  CHECK(at(10) == "12/938");
  CHECK(at(5) == "1 %");
  CHECK(at(1).empty());
  ProgressBar bar(80);
  CHECK_THAT(shown_by(bar, 1, 2, std::nan(""), start), Catch::Contains("loss not a number"));
}

TEST_CASE("the bar says what is left of the epoch, steadily", "[bar]") {
  using std::chrono::milliseconds;
  ProgressBar bar(100);
  ProgressBar::Time now{};
  const auto left_of = [](const std::string& line) { return line.substr(line.rfind("  ") + 2); };
  // The first step takes five seconds, the others one and a bit more or less.
  now += milliseconds(5000);
  CHECK(left_of(shown_by(bar, 1, 101, 0.5, now)) == "-:-- left");
  now += milliseconds(1000);
  CHECK(left_of(shown_by(bar, 2, 101, 0.5, now)) == "1:39 left");
  int minutes = 0;
  int seconds = 0;
  int before = 99;
  for (int done = 3; done < 101; ++done) {
    now += milliseconds(done % 2 == 0 ? 700 : 1300);
    const std::string left = left_of(shown_by(bar, static_cast<std::size_t>(done), 101, 0.5, now));
    CAPTURE(done, left);
    REQUIRE(std::sscanf(left.c_str(), "%d:%d left", &minutes, &seconds) == 2);
    const int told = 60 * minutes + seconds;
    if (done < 6) continue;
    // It is right, and never goes back and forth.
    CHECK(std::abs(told - (101 - done)) <= 2 + (101 - done) / 10);
    CHECK(told <= before);
    before = told;
  }
  now += milliseconds(1000);
  CHECK(left_of(shown_by(bar, 101, 101, 0.5, now)) == "0:00 left");
  // The next epoch begins with what a step has taken in this one, however long it was evaluated.
  now += std::chrono::minutes(5);
  CHECK(left_of(shown_by(bar, 1, 101, 0.5, now, "epoch 2/2")) == "1:40 left");
}

TEST_CASE("hours and days are left", "[bar]") {
  const auto left_after = [](std::chrono::milliseconds step, std::size_t steps) {
    ProgressBar bar(100);
    const ProgressBar::Time start{};
    shown_by(bar, 1, steps, 0.5, start);
    const std::string line = shown_by(bar, 2, steps, 0.5, start + step);
    return line.substr(line.rfind("loss") + 13);
  };
  using std::chrono::milliseconds;
  CHECK(left_after(milliseconds(1000), 3602) == "1:00:00 left");
  CHECK(left_after(milliseconds(1000), 3727) == "1:02:05 left");
  CHECK(left_after(milliseconds(1000), 360'002) == "4 d 4 h left");
  CHECK(left_after(milliseconds(1'000'000'000), 1'000'000) == "-:-- left");
  CHECK(left_after(milliseconds(200), 3) == "0:01 left");
}

TEST_CASE("the bar on hvdrun's terminal is a line that ends with \\r", "[bar]") {
  using std::chrono::milliseconds;
  ProgressBar bar(72, ProgressBar::Terminal::of_hvdrun);
  const ProgressBar::Time start{};
  CHECK(bar.clear().empty());
  CHECK(bar.draw("epoch 1/2", 1, 4, 0.5, start) ==
        "epoch 1/2 [#######.......................] 1/4  loss 0.5000  -:-- left\r");
  int drawn = 0;
  for (int ms = 1; ms <= 1000; ++ms)
    if (!bar.draw("epoch 1/2", 2, 4, 10.5, start + milliseconds(ms)).empty()) ++drawn;
  CHECK(drawn == 4);
  // A shorter one goes over all of a longer one: it has nothing else to take it away with.
  CHECK(bar.draw("epoch 1/2", 3, 4, 0.5, start + milliseconds(2000)) ==
        "epoch 1/2 [######################........] 3/4  loss 0.5000  0:01 left \r");
  CHECK(bar.clear() == std::string(70, ' ') + "\r");
  CHECK(bar.clear().empty());
}

}  // namespace
}  // namespace hvdrun
