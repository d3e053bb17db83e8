// The four files of MNIST in a folder, or of any data set in the same format.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "worker/labs/data/files/idx.h"

namespace hvdrun {

inline constexpr std::size_t kMnistSide = 28;
inline constexpr unsigned kMnistMaxLabel = 9;

enum class Split { train, test };

struct LabelledImages {
  IdxImages images;
  std::vector<std::uint8_t> labels;
};

// "train-images-idx3-ubyte" and so on.
std::string mnist_images_name(Split split);
std::string mnist_labels_name(Split split);

// Reads <directory>/train-images-idx3-ubyte and train-labels-idx1-ubyte (t10k- for the test set),
// also spelt train-images.idx3-ubyte, and each also with .gz; the plain file wins.
std::optional<LabelledImages> read_mnist(const std::string& directory, Split split,
                                         std::string& error);

// Writes both files, whole or not at all.
bool write_mnist(const std::string& directory, Split split, const LabelledImages& data,
                 bool compressed, std::string& error);

}  // namespace hvdrun
