#include "worker/labs/report/curve_plot.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <limits>
#include <utility>

namespace hvdrun {
namespace {

// In pixels.
constexpr double kWidth = 400;  // of a panel's inside
constexpr double kHeight = 260;
constexpr double kLeft = 64;  // for the numbers of the axis
constexpr double kRight = 16;
constexpr double kTop = 64;  // for the titles
constexpr double kBottom = 48;

// Told apart by colour-blind readers too.
constexpr const char* kColours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7"};

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else
      // Control characters may not stand in XML at all.
      out += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return out;
}

std::string pixels(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f", value);
  return text;
}

std::string tick_text(double value) {
  char text[32];
  const bool whole = value == std::floor(value) && std::abs(value) < 1e9;
  std::snprintf(text, sizeof(text), whole ? "%.0f" : "%.6g", value);
  return text;
}

std::string line(double x1, double y1, double x2, double y2, const char* colour) {
  return "<line x1=\"" + pixels(x1) + "\" y1=\"" + pixels(y1) + "\" x2=\"" + pixels(x2) +
         "\" y2=\"" + pixels(y2) + "\" stroke=\"" + colour + "\"/>\n";
}

std::string text_at(double x, double y, const char* anchor, const std::string& text) {
  return "<text x=\"" + pixels(x) + "\" y=\"" + pixels(y) + "\" text-anchor=\"" + anchor + "\">" +
         escaped(text) + "</text>\n";
}

// From data to pixels.
struct Scale {
  std::vector<double> ticks;
  double low;
  double high;
  double start;  // pixel of `low`
  double end;    // of `high`

  double at(double value) const { return start + (end - start) * (value - low) / (high - low); }
};

constexpr double kInfinite = std::numeric_limits<double>::infinity();

// From the first x to the last, also where y is no number there: panels side by side are alike.
Scale x_scale_of(const Panel& panel, double start, double end) {
  double low = kInfinite;
  double high = -kInfinite;
  for (const Curve& curve : panel.curves) {
    for (const auto& point : curve.points) {
      if (!std::isfinite(point.first)) continue;
      low = std::min(low, point.first);
      high = std::max(high, point.first);
    }
  }
  if (low > high) return {{}, 0, 1, start, end};
  const std::vector<double> ticks = whole_ticks(low, high, 10);
  if (low == high) low -= 1, high += 1;  // a single one in the middle
  return {ticks, low, high, start, end};
}

Scale y_scale_of(const Panel& panel, double start, double end) {
  double low = kInfinite;
  double high = -kInfinite;
  for (const Curve& curve : panel.curves) {
    for (const auto& [x, y] : curve.points) {
      if (!std::isfinite(x) || !std::isfinite(y)) continue;
      low = std::min(low, y);
      high = std::max(high, y);
    }
  }
  if (low > high) low = 0, high = 1;
  std::vector<double> ticks;
  for (const double tick : axis_ticks(low, high, 6))
    if ((tick >= panel.least || tick >= low) && (tick <= panel.most || tick <= high))
      ticks.push_back(tick);
  if (ticks.size() < 2) ticks = axis_ticks(low, high, 6);
  const double first = ticks.front();
  const double last = ticks.back();
  return {std::move(ticks), first, last, start, end};
}

// A line for every stretch without a gap, and a dot for every point: one alone has no line.
std::string drawn(const Curve& curve, const Scale& x_scale, const Scale& y_scale,
                  const char* colour) {
  std::string lines;
  std::string dots;
  std::string stretch;
  const auto end_stretch = [&] {
    if (!stretch.empty())
      lines += std::string("<polyline fill=\"none\" stroke-width=\"2\" stroke=\"") + colour +
               "\" points=\"" + stretch + "\"/>\n";
    stretch.clear();
  };
  for (const auto& [x, y] : curve.points) {
    if (!std::isfinite(x) || !std::isfinite(y)) {
      end_stretch();
      continue;
    }
    const std::string px = pixels(x_scale.at(x));
    const std::string py = pixels(y_scale.at(y));
    stretch.append(stretch.empty() ? "" : " ").append(px).append(",").append(py);
    dots.append("<circle r=\"2.5\" fill=\"").append(colour);
    dots.append("\" cx=\"").append(px).append("\" cy=\"").append(py).append("\"/>\n");
  }
  end_stretch();
  return lines + dots;
}

std::string drawn(const Panel& panel, const std::string& x_title, double left) {
  const double right = left + kWidth;
  const double bottom = kTop + kHeight;
  const Scale x_scale = x_scale_of(panel, left, right);
  const Scale y_scale = y_scale_of(panel, bottom, kTop);
  std::string svg = text_at(left, kTop - 14, "start", panel.title);
  for (const double tick : y_scale.ticks) {
    const double y = y_scale.at(tick);
    svg += line(left, y, right, y, "#dddddd") + line(left - 5, y, left, y, "#444444");
    svg += text_at(left - 8, y + 4, "end", tick_text(tick));
  }
  for (const double tick : x_scale.ticks) {
    const double x = x_scale.at(tick);
    svg += line(x, bottom, x, bottom + 5, "#444444");
    svg += text_at(x, bottom + 19, "middle", tick_text(tick));
  }
  svg += line(left, kTop, left, bottom, "#444444") + line(left, bottom, right, bottom, "#444444");
  svg += text_at((left + right) / 2, bottom + 38, "middle", x_title);
  double legend = right;
  for (std::size_t i = panel.curves.size(); i-- > 0;) {
    const Curve& curve = panel.curves[i];
    const char* const colour = kColours[i % std::size(kColours)];
    svg += drawn(curve, x_scale, y_scale, colour);
    // About seven pixels a letter, and the sample of the colour.
    const double width = 7.0 * static_cast<double>(curve.name.size()) + 34;
    svg += line(legend - width, kTop - 18, legend - width + 18, kTop - 18, colour);
    svg += text_at(legend - width + 22, kTop - 14, "start", curve.name);
    legend -= width;
  }
  return svg;
}

}  // namespace

std::vector<double> axis_ticks(double low, double high, int count) {
  // Nor may neighbours be nearer than doubles can tell.
  if (!(high - low > 1e-9 * std::max(std::abs(low), std::abs(high)))) {
    const double room = low == 0 ? 1 : std::abs(low) / 10;
    high = std::max(low, high) + room;
    low -= room;
  }
  const double least = (high - low) / count;
  double step = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0, 10.0}) {
    if (step * factor < least * (1 - 1e-9)) continue;
    step *= factor;
    break;
  }
  const double first = std::floor(low / step + 1e-9);
  const double last = std::ceil(high / step - 1e-9);
  std::vector<double> ticks;
  const auto steps = static_cast<int>(last - first);                           // about `count`
  for (int i = 0; i <= steps; ++i) ticks.push_back((first + i) * step + 0.0);  // no -0
  return ticks;
}

std::vector<double> whole_ticks(double low, double high, int count) {
  double step = 1;
  for (int i = 0; std::floor(high / step) - std::ceil(low / step) + 1 > count; ++i)
    step *= i % 3 == 1 ? 2.5 : 2;  // 1, 2, 5, 10 ...
  std::vector<double> ticks;
  const double first = std::ceil(low / step);
  const auto steps = static_cast<int>(std::floor(high / step) - first);
  for (int i = 0; i <= steps; ++i) ticks.push_back((first + i) * step + 0.0);
  return ticks;
}

std::string svg_plot(const std::string& title, const std::string& x_title,
                     const std::vector<Panel>& panels) {
  const double one = kLeft + kWidth + kRight;
  const double width = one * static_cast<double>(panels.size());
  const double height = kTop + kHeight + kBottom;
  const std::string size = "width=\"" + pixels(width) + "\" height=\"" + pixels(height) + "\"";
  std::string svg = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
  svg += "<svg xmlns=\"http://www.w3.org/2000/svg\" " + size +
         " font-family=\"sans-serif\" font-size=\"12\">\n<rect " + size + " fill=\"white\"/>\n";
  svg += "<title>" + escaped(title) + "</title>\n" + text_at(width / 2, 22, "middle", title);
  for (std::size_t i = 0; i < panels.size(); ++i)
    svg += drawn(panels[i], x_title, one * static_cast<double>(i) + kLeft);
  return svg + "</svg>\n";
}

}  // namespace hvdrun
