// A recipe in words: `train --describe` prints it, docs/models.md has that of every model.
#pragma once

#include <string>

#include "worker/labs/models/recipe.h"

namespace hvdrun {

// "sgd, lr 0.01, momentum 0.5, batches of 64, 10 epochs, ...", of one rank; what is switched off is
// left out. A `dropout` of 0 is none.
std::string recipe_text(const Recipe& recipe, double dropout);

}  // namespace hvdrun
