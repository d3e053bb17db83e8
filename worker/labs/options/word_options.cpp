#include "worker/labs/options/word_options.h"

#include <string>
#include <vector>

#include <hvd/hvd.h>

#include "worker/labs/base/agreement.h"
#include "worker/labs/base/start_place.h"
#include "worker/labs/base/train_exit_codes.h"

namespace hvdrun {

std::string take_word_vectors(LabModel& model, const TrainOptions& options,
                              const Vocabulary& vocabulary) {
  std::string error;
  std::string skipped;
  if (!options.embedding.empty() && (is_alone() ? start_place().rank : hvd::rank()) == 0) {
    const std::vector<torch::Tensor> words = model.word_parameters();
    const auto dimension = static_cast<std::size_t>(words.at(0).size(1));
    const auto vectors = read_word_vectors(options.embedding, dimension, vocabulary, error);
    if (vectors) model.set_word_vectors(*vectors);
    if (vectors && vectors->skipped > 0)
      skipped = options.embedding + ": " + std::to_string(vectors->skipped) +
                " lines left out, whose word is none of a sentence (punctuation, a blank in it)";
  }
  agree(error, exit_no_input);
  if (options.freeze_embedding)
    for (torch::Tensor& parameter : model.word_parameters()) parameter.requires_grad_(false);
  return skipped;
}

void make_word_gradients_sparse(LabModel& model, const TrainOptions& options) {
  if (!options.sparse_embedding) return;
  std::string error;
  if (!model.make_word_gradients_sparse())
    error = "--sparse-embedding: " + options.model + " has no vectors of words";
  else if (options.freeze_embedding || options.use_adasum)
    error = "--sparse-embedding goes without --freeze-embedding and --use-adasum";
  agree(error, exit_usage);
}

}  // namespace hvdrun
