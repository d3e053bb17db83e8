#include "worker/labs/train/run_data.h"

#include <optional>
#include <string>
#include <utility>

#include <hvd/hvd.h>

#include "common/host/usable_cores.h"
#include "worker/labs/base/agreement.h"
#include "worker/labs/base/start_place.h"
#include "worker/labs/base/thread_plan.h"
#include "worker/labs/base/train_exit_codes.h"
#include "worker/labs/batches/bad_data.h"
#include "worker/labs/train/synthetic_batches.h"

namespace hvdrun {
namespace {

constexpr std::size_t kSyntheticSteps = 100;  // of an epoch
// The ranks of it where their number may change: one that comes later must have the same data.
constexpr std::size_t kElasticRanks = 8;

// With how many threads a rank decodes; it computes with the rest of its cores.
std::int64_t share_cores(const TrainOptions& options, at::Device device) {
  ThreadDemand demand;
  demand.cores = usable_cores();
  demand.local_ranks = is_alone() ? start_place().local_size : hvd::local_size();
  demand.computing = static_cast<std::size_t>(torch::get_num_threads());
  demand.decoding = static_cast<std::size_t>(options.data.data_threads);
  demand.on_gpu = device.is_cuda();
  const ThreadPlan plan = plan_threads(demand);
  torch::set_num_threads(static_cast<int>(plan.computing));
  return static_cast<std::int64_t>(plan.decoding);
}

DataSets open_files(const TrainOptions& options, const ModelInfo& model, at::Device device,
                    std::uint64_t seed) {
  std::string error;
  DataRequest request = options.data;
  request.seed = seed;
  request.classes = options.shape.classes;
  request.words = options.shape.words;
  if (model.data.photographs) request.data_threads = share_cores(options, device);
  std::optional<DataSets> data = model.data.open(request, error);
  agree(error, exit_no_input);
  return std::move(*data);
}

DataSets make_synthetic(const TrainOptions& options, const ModelInfo& info,
                        std::size_t global_batch) {
  torch::manual_seed(options.recipe.seed);
  const std::shared_ptr<LabModel> model = info.make(options.shape);
  const auto batch = static_cast<std::size_t>(options.recipe.batch_size);
  if (options.elastic) global_batch = kElasticRanks * batch;
  const std::int64_t side = info.data.photographs ? options.data.image_size : 0;
  DataSets data;
  data.train =
      std::make_unique<SyntheticBatches>(*model, kSyntheticSteps * global_batch, batch, side);
  data.test = std::make_unique<SyntheticBatches>(*model, global_batch, batch, side);
  return data;
}

}  // namespace

DataSets open_run_data(const TrainOptions& options, const ModelInfo& model, at::Device device,
                       std::size_t global_batch, std::uint64_t seed) {
  DataSets data = options.synthetic ? make_synthetic(options, model, global_batch)
                                    : open_files(options, model, device, seed);
  const auto require_same_data = [&](const Dataset& one, const char* which) {
    require_same(
        one.checksum(),
        std::string("the ") + which + " " + model.data.samples + " in " + options.data.directory,
        exit_no_input);
  };
  require_same_data(*data.train, "training");
  require_same_data(*data.test, "test");
  if (data.validation) require_same_data(*data.validation, "validation");
  if (options.data.bad_data == "stop") refuse_bad_data(data);
  agree(data.train->size() < global_batch && !start_place().is_late
            ? std::to_string(data.train->size()) + " training " + model.data.samples +
                  " are fewer than one step takes (" + std::to_string(global_batch) +
                  "); lower --batch-size"
            : "",
        exit_usage);
  return data;
}

}  // namespace hvdrun
