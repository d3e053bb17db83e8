// The state of a model for <hvd/elastic_run.h>, which has the loop around it and tells how it goes
// on. <hvd/torch.h> includes this.
//
//   hvd::init();
//   hvd::elastic::ElasticSampler sampler(dataset_size);
//   std::int64_t epoch = 0;
//   hvd::elastic::TorchState state(model.get(), &sgd);
//   state.add("epoch", epoch).add(sampler);
//   hvd::elastic::run(state, [&] {
//     hvd::DistributedOptimizer optimizer(sgd);  // a new one each time
//     for (; epoch < epochs; ++epoch) {
//       while (const auto batch = sampler.next(128)) {
//         ... step ...
//         sampler.record();
//         state.commit();
//       }
//       sampler.set_epoch(epoch + 1);
//     }
//   });
//
// Errors as in <hvd/hvd.h>. Not thread-safe.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <hvd/elastic_run.h>
#include <torch/torch.h>

namespace hvd {
namespace elastic {

// A model, an optimizer, numbers and samplers. All of them must outlive it.
class HVD_EXPORT TorchState : public State {
 public:
  // Either may be null. `optimizer` is the one inside a DistributedOptimizer. Saves.
  explicit TorchState(torch::nn::Module* model, torch::optim::Optimizer* optimizer = nullptr);
  ~TorchState() override;

  // Before run(). A number, or anything else that is its bytes: no pointers. Throws
  // Error(invalid_argument) for a name that is taken.
  template <class T>
  TorchState& add(const std::string& name, T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    return add_bytes(name, &value, sizeof value);
  }
  TorchState& add(ElasticSampler& sampler);

  std::string layout() const override;
  void save() override;
  // Parameters and buffers keep their memory: who has a reference to one sees the old values.
  // Gradients are none afterwards.
  void restore() override;
  // Throws Error(mismatch) on every rank where names or sizes of the numbers differ.
  void sync() override;

 protected:
  // Numbers, samplers and the optimizer's options come at once. So does what SyncBatchNorm layers
  // keep of their inputs, as those of the first step belong to it.
  std::vector<Handle> begin_sync() override;
  void end_piece(std::size_t number) override;
  void end_sync() override;

 private:
  class Copy;
  std::string layout_with(bool strides) const;
  void drop_gradients();
  TorchState& add_bytes(const std::string& name, void* value, std::size_t bytes);
  void reset() override;
  std::string values() const;
  void set_values(const std::string& bytes);

  torch::nn::Module* const model_;
  torch::optim::Optimizer* const optimizer_;
  std::map<std::string, std::pair<void*, std::size_t>> numbers_;
  std::vector<ElasticSampler*> samplers_;
  std::unique_ptr<Copy> copy_;
};

}  // namespace elastic
}  // namespace hvd
