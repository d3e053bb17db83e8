#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/worker/hvd/torch/catch_with_torch.h"
#include "worker/labs/report/curve_plot.h"

namespace hvdrun {
namespace {

TEST_CASE("ticks are round and enclose what is shown", "[plot]") {
  using Ticks = std::vector<double>;
  const auto near = [](const Ticks& a, const Ticks& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](double x, double y) { return std::abs(x - y) < 1e-9; });
  };
  CHECK(near(axis_ticks(0, 10, 5), {0, 2, 4, 6, 8, 10}));
  CHECK(near(axis_ticks(0.13, 0.52, 5), {0.1, 0.2, 0.3, 0.4, 0.5, 0.6}));
  CHECK(near(axis_ticks(-1, 1, 4), {-1, -0.5, 0, 0.5, 1}));
  for (const auto& [low, high] : std::vector<std::pair<double, double>>{
           {0, 0}, {7, 7}, {1e-300, 2e-300}, {1e17, 1e17 + 16}, {-1e300, 1e300}, {3, 2}}) {
    const Ticks ticks = axis_ticks(low, high, 6);
    CAPTURE(low, high, ticks);
    CHECK(ticks.size() >= 2);
    CHECK(ticks.size() <= 10);
    CHECK(ticks.front() <= low);
    CHECK(ticks.back() >= low);
    CHECK(std::is_sorted(ticks.begin(), ticks.end()));
  }
}

TEST_CASE("epochs are whole numbers on their axis", "[plot]") {
  using Ticks = std::vector<double>;
  CHECK(whole_ticks(1, 3, 10) == Ticks{1, 2, 3});
  CHECK(whole_ticks(1, 2, 10) == Ticks{1, 2});
  CHECK(whole_ticks(7, 7, 10) == Ticks{7});
  CHECK(whole_ticks(1, 12, 10) == Ticks{2, 4, 6, 8, 10, 12});
  CHECK(whole_ticks(1, 40, 10) == Ticks{5, 10, 15, 20, 25, 30, 35, 40});
  CHECK(whole_ticks(31, 90, 10) == Ticks{40, 50, 60, 70, 80, 90});
  for (int last = 1; last <= 3000; ++last) {
    const Ticks ticks = whole_ticks(1, last, 10);
    CAPTURE(last, ticks);
    CHECK(ticks.size() >= (last < 4 ? static_cast<std::size_t>(last) : 3));
    CHECK(ticks.size() <= 10);
    CHECK(ticks.back() <= last);
    CHECK(std::all_of(ticks.begin(), ticks.end(),
                      [](double tick) { return tick >= 1 && tick == std::floor(tick); }));
  }
  CHECK(whole_ticks(1, 1e6, 10).back() == 1e6);
}

// The words below the axis of epochs, 19 pixels under it.
std::vector<std::string> epochs_shown(const std::string& svg) {
  std::vector<std::string> found;
  const std::string mark = " y=\"343.0\" text-anchor=\"middle\">";
  for (auto at = svg.find(mark); at != std::string::npos; at = svg.find(mark, at + 1)) {
    const auto begin = at + mark.size();
    found.push_back(svg.substr(begin, svg.find('<', begin) - begin));
  }
  return found;
}

TEST_CASE("a plot of one epoch, of none and of no numbers", "[plot]") {
  using Words = std::vector<std::string>;
  const auto plot_of = [](std::vector<std::pair<double, double>> points) {
    return svg_plot("t", "epoch", {{"accuracy (%)", {{"train", std::move(points)}}, 0, 100}});
  };
  const std::string one = plot_of({{1, 100}});
  CHECK(epochs_shown(one) == Words{"1"});
  // In the middle of 64 to 464, and no tick above 100 %.
  CHECK_THAT(one, Catch::Contains("cx=\"264.0\"") && Catch::Contains(">100</text>") &&
                      !Catch::Contains(">105</text>"));
  CHECK_THAT(plot_of({{1, 0}}), Catch::Contains(">0</text>") && !Catch::Contains(">-"));
  CHECK(epochs_shown(plot_of({})).empty());
  // Epochs are where they were, also without a number for all of them.
  const double nan = std::nan("");
  const std::string without = plot_of({{1, nan}, {2, HUGE_VAL}, {3, -HUGE_VAL}});
  CHECK(epochs_shown(without) == Words{"1", "2", "3"});
  CHECK_THAT(without,
             !Catch::Contains("<circle") && !Catch::Contains("nan") && !Catch::Contains("inf"));
  const std::string two = plot_of({{1, 20}, {2, nan}, {3, 40}});
  CHECK(epochs_shown(two) == Words{"1", "2", "3"});
  CHECK_THAT(two, Catch::Contains("cx=\"64.0\"") && Catch::Contains("cx=\"464.0\"") &&
                      !Catch::Contains("cx=\"264.0\""));
}

TEST_CASE("a plot has its curves, gaps where there is no number, and no raw text", "[plot]") {
  const double nan = std::nan("");
  const std::string svg =
      svg_plot("<a & \"b\">", "epoch",
               {{"loss", {{"train", {{1, 2}, {2, 1}, {3, nan}, {4, 0.5}}}, {"validation", {}}}}});
  const auto count = [&](const std::string& part) {
    int times = 0;
    for (auto at = svg.find(part); at != std::string::npos; at = svg.find(part, at + 1)) ++times;
    return times;
  };
  CHECK(count("<polyline") == 2);
  CHECK(count("<circle") == 3);
  CHECK(count("nan") == 0);
  CHECK(count("&lt;a &amp; &quot;b&quot;&gt;") == 2);
  CHECK(count(">validation</text>") == 1);
  CHECK(count(">epoch</text>") == 1);
}

}  // namespace
}  // namespace hvdrun
