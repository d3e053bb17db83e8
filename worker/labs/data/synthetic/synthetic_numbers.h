// A made-up set in the shape of SVHN. The digits of synthetic_digits.h are painted in any two
// colours that can be told apart, lighter or darker than what is behind them. They stand over a
// slope of light, with parts of other digits at both sides. Neither a colour nor a single pixel
// tells the digit, so a linear model hardly learns it; a convolutional net does.
//
// Integer arithmetic only, so the same seed gives the same bytes on every machine and compiler.
#pragma once

#include <cstddef>
#include <cstdint>

#include "worker/labs/data/images/image_set.h"
#include "worker/labs/data/images/mnist_files.h"

namespace hvdrun {

// The first `count` images of the set; a larger count only appends. The two splits share no image.
ImageSet synthetic_numbers(Split split, std::size_t count, std::uint64_t seed);

}  // namespace hvdrun
