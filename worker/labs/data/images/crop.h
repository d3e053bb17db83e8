// From a decoded image to what a net sees: a part of it, at the net's size, perhaps mirrored and in
// other colours, centred and scaled.
//
// C++17: the labs include this.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "worker/labs/data/files/split_mix.h"
#include "worker/labs/data/images/image.h"

namespace hvdrun {

// In pixels of the image; may be fractions of one.
struct Crop {
  double top = 0;
  double left = 0;
  double rows = 0;
  double columns = 0;
};

// A part of 8 to 100 % of the area, three to four or four to three or between, anywhere; in the
// middle when ten tries have found none that fits. As ImageNet's nets are trained.
Crop random_crop(const ImageSize& size, SplitMix& random);
// The middle square, seven eighths of the shorter side: as they are tested.
Crop middle_crop(const ImageSize& size);
// The whole pixels that it touches.
Window window_of(const Crop& crop);

// Colours are multiplied: brightness and contrast by 0.6 to 1.4, saturation likewise.
struct ColourChange {
  float brightness = 1;
  float contrast = 1;
  float saturation = 1;
};
ColourChange random_colours(SplitMix& random);

struct PixelScaling {
  // Means of each channel, of pixels from 0 to 1. ImageNet's, as everybody writes them.
  std::array<float, 3> mean{0.485F, 0.456F, 0.406F};
  std::array<float, 3> deviation{0.229F, 0.224F, 0.225F};
};

struct CropOptions {
  std::size_t side = 224;  // of the result, in pixels
  bool mirror = false;
  ColourChange colours = {};
  PixelScaling scaling = {};
};

// Writes 3 x side x side numbers, channel by channel: the crop, reduced or enlarged bilinearly. A
// crop reaches into nothing outside of the image.
void write_crop(const Image& image, const Crop& crop, const CropOptions& options, float* output);

}  // namespace hvdrun
