// Curves as a picture in SVG: loss and accuracy by epoch, for --plot. No LibTorch in here.
#pragma once

#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace hvdrun {

struct Curve {
  std::string name;
  // x and y, by rising x. What is not a number leaves a gap.
  std::vector<std::pair<double, double>> points;
};

// A system of axes with its curves.
struct Panel {
  std::string title;
  std::vector<Curve> curves;
  // y has no tick outside of these: no accuracy is above 100 %.
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
};

// Round numbers from at or below `low` to at or above `high`, at most about `count` of them.
std::vector<double> axis_ticks(double low, double high, int count);
// Whole numbers from `low` to `high`, each 1, 2 or 5 times a power of ten, and at most `count` of
// them: epochs, of which there is no half one.
std::vector<double> whole_ticks(double low, double high, int count);

// A whole SVG file: the panels side by side over a common title for x, whose ticks are whole
// numbers, with ticks, grid and names.
std::string svg_plot(const std::string& title, const std::string& x_title,
                     const std::vector<Panel>& panels);

}  // namespace hvdrun
