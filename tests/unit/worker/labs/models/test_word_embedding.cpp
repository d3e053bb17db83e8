// Vectors of words from a file: where they go in text-nnlm, and what training makes of them.
#include "tests/unit/worker/hvd/torch/catch_with_torch.h"
#include "tests/unit/worker/labs/data/temporary_folder.h"
#include "worker/labs/checkpoint/checkpoint.h"
#include "worker/labs/data/files/whole_file.h"
#include "worker/labs/data/synthetic/synthetic_sentences.h"
#include "worker/labs/models/model.h"
#include "worker/labs/train/optimizers.h"
#include "worker/labs/train/train_process.h"

// Behind LibTorch, which has a CHECK of its own.
#include "tests/turns.h"

namespace hvdrun {
namespace {

constexpr std::size_t kNumbers = 128;  // of a word

// A line for each word: its place in the file, from 1, and 128 numbers on from there.
std::string vector_file(const std::vector<std::string>& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    text += words[i];
    for (std::size_t n = 0; n < kNumbers; ++n)
      text += " " + std::to_string(static_cast<double>(i + 1) + static_cast<double>(n) / 64);
    text += "\n";
  }
  return text;
}

torch::Tensor vector_of(std::size_t place) {
  return static_cast<double>(place + 1) + torch::arange(static_cast<std::int64_t>(kNumbers)) / 64.0;
}

std::shared_ptr<LabModel> text_model() {
  torch::manual_seed(1);
  return make_model("text-nnlm");
}

torch::Tensor embedding_of(const LabModel& model) { return model.word_parameters().at(0).detach(); }

// Has these words' vectors and otherwise the rows of `before`.
void check_rows(const torch::Tensor& rows, const torch::Tensor& before,
                const std::vector<std::int64_t>& numbers) {
  torch::Tensor expected = before.clone();
  for (std::size_t i = 0; i < numbers.size(); ++i)
    expected[numbers[i]] = vector_of(i).to(expected.dtype());
  CHECK(rows.equal(expected));
}

TEST_CASE("words of a file have its vectors, all others what they began with", "[embedding]") {
  const std::vector<std::string> words = {"film", "awful", "zebra"};
  const auto model = text_model();
  const torch::Tensor before = embedding_of(*model).clone();
  std::string error;
  const auto vectors = parse_word_vectors("f", vector_file(words), kNumbers, {}, error);
  REQUIRE(vectors);
  CHECK(model->set_word_vectors(*vectors));
  std::vector<std::int64_t> numbers;
  for (const std::string& word : words) numbers.push_back(word_numbers(word).at(0));
  check_rows(embedding_of(*model), before, numbers);

  // A word of a vocabulary has the row of its frequency; "zebra" is none of its words.
  const Vocabulary vocabulary({{"film", 2}, {"awful", 5}}, 2);
  const auto known = text_model();
  const auto of_vocabulary =
      parse_word_vectors("f", vector_file(words), kNumbers, vocabulary, error);
  REQUIRE(of_vocabulary);
  CHECK(known->set_word_vectors(*of_vocabulary));
  check_rows(embedding_of(*known), before, {2, 1, vocabulary.number("zebra")});
  CHECK(vocabulary.number("zebra") > 2);
  CHECK_FALSE(make_model("mnist-linear")->set_word_vectors(*vectors));
}

// The model of `train` after an epoch over some reviews that begins with `vectors`.
std::shared_ptr<LabModel> trained_text(const std::string& vectors, bool frozen) {
  const test::TemporaryFolder folder;
  folder.write("sentences.csv", synthetic_sentences(300, 1));
  folder.write("words.vec", vectors);
  TrainOptions options;
  options.model = "text-nnlm";
  options.recipe = find_model("text-nnlm")->recipe;
  options.shape = find_model("text-nnlm")->shape;
  options.recipe.optimizer = "sgd";
  options.recipe.lr = 0.05;
  options.recipe.epochs = 1;
  options.recipe.batch_size = 50;
  options.data.directory = folder.path();
  options.embedding = folder / "words.vec";
  options.freeze_embedding = frozen;
  options.checkpoint = folder / "state";
  REQUIRE(run_training(options) == 0);

  const auto model = make_model("text-nnlm");
  for (torch::Tensor& parameter : model->word_parameters()) parameter.requires_grad_(!frozen);
  std::vector<torch::Tensor> trained;
  for (const torch::Tensor& parameter : model->parameters())
    if (parameter.requires_grad()) trained.push_back(parameter);
  const auto optimizer = make_optimizer(options.recipe, trained, 1);
  Progress progress;
  std::string error;
  const auto bytes = read_whole_file(options.checkpoint, std::size_t{1} << 30, error);
  REQUIRE(bytes);
  INFO(error);
  REQUIRE(decode_checkpoint(*bytes, {"text-nnlm", "sgd", frozen}, *model, *optimizer, progress,
                            error) == CheckpointFault::none);
  CHECK(progress.steps == 5);
  return model;
}

TEST_CASE("training leaves frozen vectors as they are, bit for bit, and moves others",
          "[embedding]") {
  if (!test::takes_turn(3)) return;
  const std::vector<std::string> words = {"film", "zebra"};
  const std::string file = vector_file(words);
  const auto begun = text_model();
  std::string error;
  begun->set_word_vectors(parse_word_vectors("f", file, kNumbers, {}, error).value());
  const torch::Tensor before = embedding_of(*begun);

  const auto frozen = trained_text(file, true);
  CHECK(embedding_of(*frozen).equal(before));
  const auto free = trained_text(file, false);
  const torch::Tensor moved = embedding_of(*free).ne(before).any(1);
  // "film" is in the reviews, "zebra" in none of them; row 0 is no word.
  CHECK(moved[word_numbers("film").at(0)].item<bool>());
  CHECK_FALSE(moved[word_numbers("zebra").at(0)].item<bool>());
  CHECK_FALSE(moved[0].item<bool>());
  CHECK(moved.sum().item<std::int64_t>() > 10);
  for (const auto& model : {frozen, free})
    for (const auto& parameter : model->named_parameters()) {
      CAPTURE(parameter.key());
      if (parameter.key() == "embedding.weight") continue;
      CHECK_FALSE(parameter.value().equal(begun->named_parameters()[parameter.key()]));
    }
}

}  // namespace
}  // namespace hvdrun
