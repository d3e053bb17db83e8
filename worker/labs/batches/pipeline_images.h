// Images that are decoded while the model trains, as a data set.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "worker/labs/batches/dataset.h"
#include "worker/labs/data/images/input_pipeline.h"

namespace hvdrun {

class PipelineImages final : public Dataset {
 public:
  // `names`: of the classes, or none.
  PipelineImages(std::shared_ptr<const ImageSource> source, const PipelineOptions& options,
                 std::vector<double> class_weights = {}, std::vector<std::string> names = {});

  std::size_t size() const override { return source_->size(); }
  std::int64_t classes() const override { return source_->classes(); }
  std::uint32_t checksum() const override { return source_->checksum(); }
  std::vector<double> class_weights() const override { return class_weights_; }
  std::vector<std::string> class_names() const override { return names_; }
  std::optional<double> waited() const override { return pipeline_.times().waited.count(); }
  BadSamples look_over(std::size_t part, std::size_t parts,
                       std::chrono::steady_clock::time_point until) const override;
  BadSamples bad() const override { return pipeline_.bad(); }
  // Batches are float [n, 3, side, side].
  void begin(Pass pass) override;
  std::optional<Batch> next() override;

 private:
  std::shared_ptr<const ImageSource> source_;
  std::int64_t side_;
  std::size_t threads_;
  bool stops_ = false;  // this pass, at an image that cannot be read
  std::vector<double> class_weights_;
  std::vector<std::string> names_;
  InputPipeline pipeline_;
};

struct DataRequest;

// Shards train-* and validation-*, or folders train/CLASS and val/CLASS (or validation/CLASS).
std::optional<DataSets> open_imagenet(const DataRequest& request, std::string& error);
// CLASS/FILE, of which every fifth of each class, drawn by the seed, is for the test; classes count
// by how few they are, so that all together count alike.
std::optional<DataSets> open_labelled_folders(const DataRequest& request, std::string& error);

}  // namespace hvdrun
