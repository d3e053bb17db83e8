// The data of a model: who reads them, and what becomes of them on their way to the model. No
// LibTorch in here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "worker/labs/data/images/image_set.h"

namespace hvdrun {

// The changes to an image of the training set each time it is used.
struct Augmentation {
  // At most so much of the image's side up or down and left or right, in whole pixels; what comes
  // in is the edge again.
  double shift = 0;
  bool flip = false;  // left and right change places, every other time
};

// Pixels from 0 to 1 are centred and divided by these.
struct Scaling {
  std::array<double, 3> mean{};  // of each channel
  std::array<double, 3> deviation{1, 1, 1};
};
// Those of the channels of `images` themselves.
Scaling scaling_of(const ImageSet& images);

struct DataSets;

// The command line's words on the data.
struct DataRequest {
  std::string directory;
  std::uint64_t seed = 1;         // of what is held back for the test
  std::int64_t classes = 0;       // of the model; 0: as many as there are
  std::int64_t image_size = 224;  // of what the model sees of a photograph, in pixels
  std::int64_t data_threads = 0;  // that decode; the run's ThreadPlan replaces 0
  std::string dct_method = "accurate";
  std::string bad_data = "stop";     // what becomes of images that cannot be read
  std::string text_column = "text";  // of a CSV file of sentences
  std::string label_column = "label";
  std::int64_t vocabulary = 0;  // of the most frequent words
  std::int64_t words = 0;       // numbers of words, 0 included; 0: as many as usual
};

struct DataFormat {
  const char* name;
  const char* samples;    // what one of them is called, in the plural
  const char* directory;  // unless --data-dir names another
  // None, and `error` names the file.
  std::optional<DataSets> (*open)(const DataRequest& request, std::string& error);
  bool photographs = false;  // the header of a run then tells data type and format
};

// MNIST's, as everybody writes it.
inline constexpr Scaling kMnistScaling{{0.1307}, {0.3081}};

DataFormat mnist_files();
// The same files; the tutorial centres and scales them by their own numbers, shifts and flips them.
DataFormat fashion_mnist_files();
DataFormat svhn_files();
DataFormat imagenet_records();
DataFormat labelled_folders();
DataFormat labelled_text();

}  // namespace hvdrun
