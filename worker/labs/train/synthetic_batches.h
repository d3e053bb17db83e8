// Random numbers in the shape of a model's input, to measure speed without files: the same batch
// again and again, so that it costs nothing to make. Labels are random: a model learns them by
// heart, and its scores mean nothing.
#pragma once

#include "worker/labs/batches/dataset.h"
#include "worker/labs/models/model.h"

namespace hvdrun {

class SyntheticBatches : public Dataset {
 public:
  // `samples` of them, of which `batch` differ: a longer batch has them again. Shapes and classes
  // are those of `model`; a `side` other than 0 gives images so many rows and columns.
  SyntheticBatches(LabModel& model, std::size_t samples, std::size_t batch, std::int64_t side = 0);

  std::size_t size() const override { return samples_; }
  std::int64_t classes() const override { return classes_; }
  std::uint32_t checksum() const override { return 0; }
  void begin(Pass pass) override;
  std::optional<Batch> next() override;

 private:
  std::size_t samples_;
  std::int64_t classes_;
  Batch all_;
  Pass pass_;
  std::size_t batch_ = 0;  // of the pass
};

}  // namespace hvdrun
