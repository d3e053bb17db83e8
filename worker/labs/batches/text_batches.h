// Sentences as batches of word numbers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "worker/labs/batches/data_format.h"
#include "worker/labs/batches/dataset.h"
#include "worker/labs/data/text/sentences.h"

namespace hvdrun {

class TextBatches final : public Dataset {
 public:
  // The sentences of these numbers.
  TextBatches(std::shared_ptr<const Sentences> sentences, std::vector<std::uint32_t> members);

  std::size_t size() const override { return members_.size(); }
  std::int64_t classes() const override { return 2; }
  std::uint32_t checksum() const override;
  void begin(Pass pass) override;
  // Batches are int64 [n, words of the longest], filled up with 0.
  std::optional<Batch> next() override;

 private:
  const std::shared_ptr<const Sentences> sentences_;
  const std::vector<std::uint32_t> members_;
  Pass pass_;
  std::size_t batch_ = 0;   // of the pass
  std::size_t sample_ = 0;  // of the pass
};

// DIR/sentences.csv, or .tsv, either packed by gzip (.gz), split in three by the seed.
std::optional<DataSets> open_sentences(const DataRequest& request, std::string& error);

}  // namespace hvdrun
