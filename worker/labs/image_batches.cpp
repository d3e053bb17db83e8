#include "worker/labs/image_batches.h"

#include <utility>
#include <zlib.h>

namespace hvdrun {

ImageBatches::ImageBatches(LabelledImages data, double mean, double deviation)
    : data_(std::move(data)) {
  for (std::size_t i = 0; i < value_of_.size(); ++i) {
    value_of_[i] = static_cast<float>((static_cast<double>(i) / 255 - mean) / deviation);
  }
}

Batch ImageBatches::make(std::size_t count) const {
  const auto n = static_cast<std::int64_t>(count);
  return {at::empty({n, 1, static_cast<std::int64_t>(data_.images.rows),
                     static_cast<std::int64_t>(data_.images.columns)},
                    at::kFloat),
          at::empty({n}, at::kLong)};
}

void ImageBatches::put(Batch& batch, std::size_t place, std::size_t index) const {
  const std::size_t pixels = data_.images.image_size();
  const std::uint8_t* from = data_.images.pixels.data() + index * pixels;
  float* to = batch.images.data_ptr<float>() + place * pixels;
  for (std::size_t i = 0; i < pixels; ++i) to[i] = value_of_[from[i]];
  batch.labels.data_ptr<std::int64_t>()[place] = data_.labels[index];
}

Batch ImageBatches::gather(const std::uint32_t* indices, std::size_t count) const {
  Batch batch = make(count);
  for (std::size_t i = 0; i < count; ++i) put(batch, i, indices[i]);
  return batch;
}

Batch ImageBatches::range(std::size_t begin, std::size_t end) const {
  Batch batch = make(end - begin);
  for (std::size_t i = begin; i < end; ++i) put(batch, i - begin, i);
  return batch;
}

std::uint32_t ImageBatches::checksum() const {
  unsigned long sum = crc32_z(0, data_.images.pixels.data(), data_.images.pixels.size());
  sum = crc32_z(sum, data_.labels.data(), data_.labels.size());
  return static_cast<std::uint32_t>(sum);
}

}  // namespace hvdrun
