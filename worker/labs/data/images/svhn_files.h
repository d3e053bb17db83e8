// The street view house numbers (SVHN) in their second format: colour images of 32x32 with a digit
// in the middle, in MAT-files.
#pragma once

#include <optional>
#include <string>

#include "worker/labs/data/images/image_set.h"
#include "worker/labs/data/images/mnist_files.h"

namespace hvdrun {

inline constexpr std::size_t kSvhnSide = 32;
inline constexpr std::size_t kSvhnColours = 3;

// "train_32x32.mat", "test_32x32.mat".
std::string svhn_name(Split split);

// Reads two arrays of the file in `directory`: X (32 x 32 x 3 x n, rows first), y (n x 1). In y are
// 1 to 10, of which 10 is the digit 0. None, and `error` is one line, when something is wrong.
std::optional<ImageSet> read_svhn(const std::string& directory, Split split, std::string& error);

// Writes such a file, packed as the original ones are, whole or not at all.
bool write_svhn(const std::string& directory, Split split, const ImageSet& images,
                std::string& error);

}  // namespace hvdrun
