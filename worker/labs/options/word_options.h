// The options about words of a model that has them. All ranks call these; what is wrong ends all of
// them, as agree() does.
#pragma once

#include <string>

#include "worker/labs/data/text/vocabulary.h"
#include "worker/labs/models/model.h"
#include "worker/labs/options/train_options.h"

namespace hvdrun {

// --embedding, read by rank 0 (the caller broadcasts the parameters), and --freeze-embedding. Gives
// rank 0 a line about what of the file has been left out; empty: nothing.
std::string take_word_vectors(LabModel& model, const TrainOptions& options,
                              const Vocabulary& vocabulary);
// --sparse-embedding.
void make_word_gradients_sparse(LabModel& model, const TrainOptions& options);

}  // namespace hvdrun
