// Images in memory as batches of scaled tensors.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <ATen/ATen.h>

#include "worker/labs/data_format.h"

namespace hvdrun {

struct Batch {
  at::Tensor images;  // float [n, channels, rows, columns]
  at::Tensor labels;  // int64 [n]
};

class ImageBatches {
 public:
  ImageBatches(ImageSet data, const Scaling& scaling, const Augmentation& augmentation = {});

  std::size_t size() const { return data_.size(); }
  // From now on images are augmented as in this epoch. What happens to an image follows from
  // (seed, epoch, its index) alone, whichever rank has it.
  void begin_epoch(std::uint64_t seed, std::uint64_t epoch);
  // For training: augmented.
  Batch gather(const std::uint32_t* indices, std::size_t count) const;
  // As they are.
  Batch range(std::size_t begin, std::size_t end) const;
  // Of the content; ranks with different files must not train together.
  std::uint32_t checksum() const;

 private:
  Batch make(std::size_t count) const;
  void put(Batch& batch, std::size_t place, std::size_t index) const;
  void put_augmented(Batch& batch, std::size_t place, std::size_t index) const;
  float* image_at(Batch& batch, std::size_t place, std::size_t index) const;
  bool augments() const { return augmentation_.shift > 0 || augmentation_.flip; }

  ImageSet data_;
  Augmentation augmentation_;
  std::uint64_t stream_ = 0;                          // of the epoch
  std::array<std::array<float, 256>, 3> value_of_{};  // of each channel's pixels
};

}  // namespace hvdrun
