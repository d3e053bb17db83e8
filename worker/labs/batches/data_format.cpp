#include "worker/labs/batches/data_format.h"

#include <cmath>
#include <utility>

#include "worker/labs/batches/image_batches.h"
#include "worker/labs/batches/pipeline_images.h"
#include "worker/labs/batches/text_batches.h"
#include "worker/labs/data/images/mnist_files.h"
#include "worker/labs/data/images/svhn_files.h"

namespace hvdrun {
namespace {

std::optional<ImageSet> read_grey_images(const std::string& directory, Split split,
                                         std::string& error) {
  auto data = read_mnist(directory, split, error);
  if (!data) return std::nullopt;
  return ImageSet{1, data->images.rows, data->images.columns, std::move(data->images.pixels),
                  std::move(data->labels)};
}

using ReadImages = std::optional<ImageSet> (*)(const std::string& directory, Split split,
                                               std::string& error);

// Without a scaling that of the training images.
std::optional<DataSets> open_images(ReadImages read, const DataRequest& request,
                                    std::optional<Scaling> scaling,
                                    const Augmentation& augmentation, std::string& error) {
  std::optional<ImageSet> train = read(request.directory, Split::train, error);
  if (!train) return std::nullopt;
  std::optional<ImageSet> test = read(request.directory, Split::test, error);
  if (!test) return std::nullopt;
  if (!scaling) scaling = scaling_of(*train);
  DataSets sets;
  sets.train = std::make_unique<ImageBatches>(std::move(*train), *scaling, augmentation);
  sets.test = std::make_unique<ImageBatches>(std::move(*test), *scaling);
  return sets;
}

}  // namespace

Scaling scaling_of(const ImageSet& images) {
  Scaling scaling;
  const std::size_t area = images.rows * images.columns;
  for (std::size_t channel = 0; channel < images.channels; ++channel) {
    // Integers: exact for 2^48 pixels, and the same in any order.
    std::uint64_t sum = 0;
    std::uint64_t squares = 0;
    for (std::size_t i = 0; i < images.size(); ++i) {
      const std::uint8_t* const plane =
          images.pixels.data() + i * images.image_size() + channel * area;
      for (std::size_t p = 0; p < area; ++p) {
        sum += plane[p];
        squares += std::uint64_t{plane[p]} * plane[p];
      }
    }
    const auto count = static_cast<double>(images.size() * area);
    if (count == 0) continue;
    const double mean = static_cast<double>(sum) / count;
    const double variance = static_cast<double>(squares) / count - mean * mean;
    scaling.mean.at(channel) = mean / 255;
    // Images of one colour stay what they are.
    if (variance > 0) scaling.deviation.at(channel) = std::sqrt(variance) / 255;
  }
  return scaling;
}

DataFormat mnist_files() {
  return {"MNIST files", "images", "data/mnist",
          [](const DataRequest& request, std::string& error) {
            return open_images(read_grey_images, request, kMnistScaling, {}, error);
          }};
}

DataFormat fashion_mnist_files() {
  return {"Fashion-MNIST, shifted and flipped", "images", "data/fashion-mnist",
          [](const DataRequest& request, std::string& error) {
            return open_images(read_grey_images, request, std::nullopt, {0.2, true}, error);
          }};
}

DataFormat svhn_files() {
  return {"SVHN, cropped digits", "images", "data/svhn",
          [](const DataRequest& request, std::string& error) {
            return open_images(read_svhn, request, std::nullopt, {}, error);
          }};
}

DataFormat imagenet_records() {
  return {"ImageNet: JPEGs in shards or folders", "images", "data/imagenet", open_imagenet,
          /*photographs=*/true};
}

DataFormat labelled_folders() {
  return {"a folder of JPEGs and PNGs for each class", "images", "data/artists",
          open_labelled_folders, /*photographs=*/true};
}

DataFormat labelled_text() {
  return {"sentences of two classes", "sentences", "data/text", open_sentences};
}

}  // namespace hvdrun
