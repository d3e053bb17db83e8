#include "worker/labs/batches/image_batches.h"

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <zlib.h>

#include "worker/labs/data/files/split_mix.h"

namespace hvdrun {

ImageBatches::ImageBatches(ImageSet data, const Scaling& scaling, const Augmentation& augmentation)
    : data_(std::move(data)), augmentation_(augmentation) {
  if (data_.channels > value_of_.size()) throw std::invalid_argument("images of over 3 channels");
  for (std::size_t channel = 0; channel < data_.channels; ++channel)
    for (std::size_t i = 0; i < 256; ++i)
      value_of_.at(channel).at(i) =
          static_cast<float>((static_cast<double>(i) / 255 - scaling.mean.at(channel)) /
                             scaling.deviation.at(channel));
  for (const std::uint8_t label : data_.labels)
    classes_ = std::max<std::int64_t>(classes_, label + 1);
}

void ImageBatches::begin(Pass pass) {
  pass_ = std::move(pass);
  batch_ = 0;
  sample_ = 0;
  stream_ = SplitMix(pass_.seed, ~pass_.epoch).next();
}

Batch ImageBatches::make(std::size_t count) const {
  const auto n = static_cast<std::int64_t>(count);
  return {
      at::empty({n, static_cast<std::int64_t>(data_.channels),
                 static_cast<std::int64_t>(data_.rows), static_cast<std::int64_t>(data_.columns)},
                at::kFloat),
      at::empty({n}, at::kLong)};
}

float* ImageBatches::image_at(Batch& batch, std::size_t place, std::size_t index) const {
  batch.labels.data_ptr<std::int64_t>()[place] = data_.labels[index];
  return batch.inputs.data_ptr<float>() + place * data_.image_size();
}

void ImageBatches::put(Batch& batch, std::size_t place, std::size_t index) const {
  const std::size_t area = data_.rows * data_.columns;
  const std::uint8_t* from = data_.pixels.data() + index * data_.image_size();
  float* to = image_at(batch, place, index);
  for (std::size_t channel = 0; channel < data_.channels; ++channel) {
    const float* const value_of = value_of_[channel].data();
    for (std::size_t i = 0; i < area; ++i) *to++ = value_of[*from++];
  }
}

void ImageBatches::put_augmented(Batch& batch, std::size_t place, std::size_t index) const {
  const auto rows = static_cast<std::int64_t>(data_.rows);
  const auto columns = static_cast<std::int64_t>(data_.columns);
  SplitMix random(stream_, index);
  const auto most = [&](std::int64_t side) {
    return static_cast<std::int64_t>(augmentation_.shift * static_cast<double>(side));
  };
  const std::int64_t down = random.between(-most(rows), most(rows));
  const std::int64_t right = random.between(-most(columns), most(columns));
  const bool flip = augmentation_.flip && random.below(2) == 1;
  const std::uint8_t* from = data_.pixels.data() + index * data_.image_size();
  float* to = image_at(batch, place, index);
  for (std::size_t channel = 0; channel < data_.channels; ++channel) {
    const float* const value_of = value_of_[channel].data();
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::uint8_t* const line =
          from + std::clamp<std::int64_t>(row - down, 0, rows - 1) * columns;
      for (std::int64_t column = 0; column < columns; ++column) {
        const std::int64_t at = std::clamp<std::int64_t>(column - right, 0, columns - 1);
        *to++ = value_of[line[flip ? columns - 1 - at : at]];
      }
    }
    from += rows * columns;
  }
}

std::optional<Batch> ImageBatches::next() {
  if (batch_ == pass_.batch_sizes.size()) return std::nullopt;
  const std::size_t count = pass_.batch_sizes[batch_++];
  const bool augments = pass_.augment && (augmentation_.shift > 0 || augmentation_.flip);
  Batch batch = make(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t index = pass_.samples.at(sample_++);
    if (augments)
      put_augmented(batch, i, index);
    else
      put(batch, i, index);
  }
  return batch;
}

Batch ImageBatches::range(std::size_t begin, std::size_t end) const {
  Batch batch = make(end - begin);
  for (std::size_t i = begin; i < end; ++i) put(batch, i - begin, i);
  return batch;
}

std::uint32_t ImageBatches::checksum() const {
  unsigned long sum = crc32_z(0, data_.pixels.data(), data_.pixels.size());
  sum = crc32_z(sum, data_.labels.data(), data_.labels.size());
  return static_cast<std::uint32_t>(sum);
}

}  // namespace hvdrun
