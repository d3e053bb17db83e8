// A made-up digit set in the shape of MNIST, for machines without the real files and for tests: ten
// glyphs drawn with strokes, each image bent, turned, moved and scaled, with stray strokes and
// noise. A linear model cannot follow the moves and turns; a small convolutional net can.
//
// Integer arithmetic only, so the same seed gives the same bytes on every machine and compiler.
#pragma once

#include <cstddef>
#include <cstdint>

#include "worker/labs/data/images/mnist_files.h"

namespace hvdrun {

// The first `count` images of the set; a larger count only appends. The two splits share no image.
LabelledImages synthetic_digits(Split split, std::size_t count, std::uint64_t seed);

}  // namespace hvdrun
