// The painter of a picture: a ResNet-50 over a folder for each painter, of which some have left few
// pictures.
#include "worker/labs/models/resnet.h"

namespace hvdrun {

namespace {
constexpr std::int64_t kArtists = 10;  // where no data says how many there are
}

ModelInfo artists_resnet() {
  ModelInfo info{"artists-resnet",
                 "ResNet-50 for pictures in a folder for each class, with class weights",
                 labelled_folders(),
                 "He et al., arXiv 1512.03385, as torchvision has it",
                 23'528'522,
                 [](const ModelShape& shape) -> std::shared_ptr<LabModel> {
                   return make_resnet50(shape.width, shape.classes > 0 ? shape.classes : kArtists);
                 }};
  info.shape.width = 64;
  info.classes_of_data = true;
  info.reports_classes = true;
  info.recipe.optimizer = "adam";
  info.recipe.lr = 1e-4;
  info.recipe.weight_decay = 1e-4;  // He et al.'s
  info.recipe.epochs = 10;
  return info;
}

}  // namespace hvdrun
