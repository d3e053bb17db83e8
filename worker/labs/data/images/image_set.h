// Labelled images of one size in memory, as the readers give them and the labs take them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hvdrun {

struct ImageSet {
  std::size_t channels = 1;
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::vector<std::uint8_t> pixels;  // size() images, each channel by channel, row by row
  std::vector<std::uint8_t> labels;

  std::size_t size() const { return labels.size(); }
  std::size_t image_size() const { return channels * rows * columns; }
};

}  // namespace hvdrun
