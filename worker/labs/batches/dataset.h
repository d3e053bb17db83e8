// Data that a model is trained on or tested with: samples by number, given out as batches. The
// trainer knows no more of them, be they images in memory, files that are decoded meanwhile, or
// sentences.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "worker/labs/data/files/bad_samples.h"
#include "worker/labs/data/files/pass.h"
#include "worker/labs/data/text/vocabulary.h"

namespace hvdrun {

struct Batch {
  at::Tensor inputs;  // [n, ...], as the model's example() has it
  at::Tensor labels;  // int64 [n]
};

// A fault of the data in the middle of a pass; names the file. The program ends with exit_no_input.
class DataError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// One thread uses it. next() throws DataError.
class Dataset {
 public:
  Dataset() = default;
  Dataset(const Dataset&) = delete;
  Dataset& operator=(const Dataset&) = delete;
  virtual ~Dataset() = default;

  virtual std::size_t size() const = 0;
  // Labels are below it; of yes and no, 2.
  virtual std::int64_t classes() const = 0;
  // The checksum of the content, or, for files that are read later, of their names and sizes. Ranks
  // with different data must not train together.
  virtual std::uint32_t checksum() const = 0;
  // The weight of a sample of each class in the loss; empty: all alike.
  virtual std::vector<double> class_weights() const { return {}; }

  // None, where they have none.
  virtual std::vector<std::string> class_names() const { return {}; }
  // Seconds of this pass that next() has waited for a batch; none where nothing is waited for.
  virtual std::optional<double> waited() const { return std::nullopt; }

  // Those among the samples `part`, `part + parts` and so on that cannot be read. They are found as
  // far as that can be seen by then and without reading all. None where all have been read already.
  virtual BadSamples look_over(std::size_t /*part*/, std::size_t /*parts*/,
                               std::chrono::steady_clock::time_point /*until*/) const {
    return {};
  }
  // Bad samples of this pass, as far as next() has come: replaced or left out, as the pass wants
  // it.
  virtual BadSamples bad() const { return {}; }

  // From now on next() gives the batches of this pass; what is left of the one before is dropped.
  virtual void begin(Pass pass) = 0;
  // None after the last batch. No batch is empty.
  virtual std::optional<Batch> next() = 0;
};

struct DataSets {
  Vocabulary vocabulary;  // of sentences
  std::unique_ptr<Dataset> train;
  std::unique_ptr<Dataset> validation;  // null: the test is looked at in between as well
  std::unique_ptr<Dataset> test;
  std::vector<std::string> notes;  // what was passed over, a line each
};

}  // namespace hvdrun
