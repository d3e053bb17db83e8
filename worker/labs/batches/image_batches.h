// Images in memory as batches of scaled tensors.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "worker/labs/batches/data_format.h"
#include "worker/labs/batches/dataset.h"

namespace hvdrun {

class ImageBatches : public Dataset {
 public:
  ImageBatches(ImageSet data, const Scaling& scaling, const Augmentation& augmentation = {});

  std::size_t size() const override { return data_.size(); }
  std::int64_t classes() const override { return classes_; }
  std::uint32_t checksum() const override;
  // Batches are float [n, channels, rows, columns].
  void begin(Pass pass) override;
  std::optional<Batch> next() override;
  // Images `begin` to `end` as they are.
  Batch range(std::size_t begin, std::size_t end) const;

 private:
  Batch make(std::size_t count) const;
  void put(Batch& batch, std::size_t place, std::size_t index) const;
  void put_augmented(Batch& batch, std::size_t place, std::size_t index) const;
  float* image_at(Batch& batch, std::size_t place, std::size_t index) const;

  ImageSet data_;
  std::int64_t classes_ = 0;
  Augmentation augmentation_;
  Pass pass_;
  std::size_t batch_ = 0;                             // of the pass
  std::size_t sample_ = 0;                            // of the pass
  std::uint64_t stream_ = 0;                          // of the pass's epoch
  std::array<std::array<float, 256>, 3> value_of_{};  // of each channel's pixels
};

}  // namespace hvdrun
