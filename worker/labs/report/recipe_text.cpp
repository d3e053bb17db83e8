#include "worker/labs/report/recipe_text.h"

#include <sstream>

namespace hvdrun {

std::string recipe_text(const Recipe& recipe, double dropout) {
  std::ostringstream text;
  text << recipe.optimizer << ", lr " << recipe.lr;
  if (recipe.optimizer == "sgd") text << ", momentum " << recipe.momentum;
  if (recipe.weight_decay > 0) text << ", weight decay " << recipe.weight_decay;
  if (dropout > 0) text << ", dropout " << dropout;
  text << ", batches of " << recipe.batch_size << ", " << recipe.epochs << " epochs";
  if (recipe.warmup_epochs > 0) text << ", warm-up of " << recipe.warmup_epochs;
  const char* before = ", lr";
  for (const LearningRateDrop& drop : recipe.drops) {
    text << before << " x " << drop.factor << " after " << drop.epoch;
    before = ",";
  }
  if (recipe.target_accuracy > 0)
    text << ", ends when validation accuracy has been above " << recipe.target_accuracy << " in "
         << recipe.patience << " epochs";
  if (recipe.stops_on_loss)
    text << ", ends when validation loss has not become lower in " << recipe.patience << " epochs";
  return text.str();
}

}  // namespace hvdrun
