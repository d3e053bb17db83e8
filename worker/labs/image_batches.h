// Images in memory as batches of normalised tensors.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <ATen/ATen.h>

#include "worker/data/mnist_files.h"

namespace hvdrun {

struct Batch {
  at::Tensor images;  // float [n, 1, rows, columns]
  at::Tensor labels;  // int64 [n]
};

class ImageBatches {
 public:
  // Mean and deviation are those of the MNIST training set, as everybody uses them.
  explicit ImageBatches(LabelledImages data, double mean = 0.1307, double deviation = 0.3081);

  std::size_t size() const { return data_.labels.size(); }
  Batch gather(const std::uint32_t* indices, std::size_t count) const;
  Batch range(std::size_t begin, std::size_t end) const;
  // Of the content; ranks with different files must not train together.
  std::uint32_t checksum() const;

 private:
  Batch make(std::size_t count) const;
  void put(Batch& batch, std::size_t place, std::size_t index) const;

  LabelledImages data_;
  std::array<float, 256> value_of_;
};

}  // namespace hvdrun
