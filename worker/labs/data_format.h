// What a model is fed with. A model whose format has no pipeline yet can be looked at, not trained.
#pragma once

namespace hvdrun {

struct DataFormat {
  const char* name;
  bool has_pipeline;
};

inline constexpr DataFormat kMnistFiles{"MNIST files", true};
// The files are those of MNIST; the lab also shifts and flips the images and normalises them by
// their own mean and deviation, which nothing does yet.
inline constexpr DataFormat kFashionMnist{"Fashion-MNIST, shifted and flipped", false};
inline constexpr DataFormat kImageNet{"ImageNet, crops of 224x224", false};
inline constexpr DataFormat kLabelledText{"sentences with a label of 0 or 1", false};

}  // namespace hvdrun
