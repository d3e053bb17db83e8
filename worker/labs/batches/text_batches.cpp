#include "worker/labs/batches/text_batches.h"

#include <algorithm>
#include <string>
#include <sys/stat.h>
#include <utility>
#include <zlib.h>

namespace hvdrun {
namespace {

// Where the sentences are; what else could be meant, and is not read, goes to `notes`.
std::string find_sentences(const std::string& directory, std::vector<std::string>& notes) {
  std::string found;
  for (const char* end : {".csv", ".tsv", ".csv.gz", ".tsv.gz"}) {
    const std::string path = std::string(directory).append("/sentences").append(end);
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) continue;
    if (found.empty())
      found = path;
    else
      notes.push_back(std::string(path).append(" is not read, ").append(found).append(" is"));
  }
  return found.empty() ? directory + "/sentences.csv" : found;
}

}  // namespace

TextBatches::TextBatches(std::shared_ptr<const Sentences> sentences,
                         std::vector<std::uint32_t> members)
    : sentences_(std::move(sentences)), members_(std::move(members)) {}

std::uint32_t TextBatches::checksum() const {
  unsigned long sum = 0;  // NOLINT(google-runtime-int): zlib's
  const auto add = [&](const void* bytes, std::size_t size) {
    sum = crc32_z(sum, static_cast<const Bytef*>(bytes), size);
  };
  for (const std::uint32_t member : members_) {
    const std::vector<std::uint32_t>& words = sentences_->words[member];
    add(words.data(), words.size() * sizeof(words[0]));
    add(&sentences_->labels[member], 1);
  }
  return static_cast<std::uint32_t>(sum);
}

void TextBatches::begin(Pass pass) {
  pass_ = std::move(pass);
  batch_ = 0;
  sample_ = 0;
}

std::optional<Batch> TextBatches::next() {
  if (batch_ == pass_.batch_sizes.size()) return std::nullopt;
  const std::size_t count = pass_.batch_sizes[batch_++];
  const auto sentence = [&](std::size_t i) -> std::size_t {
    return members_.at(pass_.samples.at(sample_ + i));
  };
  std::size_t longest = 1;
  for (std::size_t i = 0; i < count; ++i)
    longest = std::max(longest, sentences_->words[sentence(i)].size());
  const auto n = static_cast<std::int64_t>(count);
  Batch batch{at::zeros({n, static_cast<std::int64_t>(longest)}, at::kLong),
              at::empty({n}, at::kLong)};
  auto* const words = batch.inputs.data_ptr<std::int64_t>();
  auto* const labels = batch.labels.data_ptr<std::int64_t>();
  for (std::size_t i = 0; i < count; ++i) {
    const std::vector<std::uint32_t>& from = sentences_->words[sentence(i)];
    std::copy(from.begin(), from.end(), words + i * longest);
    labels[i] = sentences_->labels[sentence(i)];
  }
  sample_ += count;
  return batch;
}

std::optional<DataSets> open_sentences(const DataRequest& request, std::string& error) {
  DataSets sets;
  const std::string path = find_sentences(request.directory, sets.notes);
  std::optional<Sentences> read = read_sentences(
      path,
      {request.text_column, request.label_column, static_cast<std::size_t>(request.vocabulary),
       request.seed, request.words > 0 ? static_cast<std::uint32_t>(request.words) : kWordNumbers},
      error);
  if (!read) {
    struct stat info {};
    if (::stat(path.c_str(), &info) != 0) error += "; scripts/make-dataset text DIR makes a set";
    return std::nullopt;
  }
  const auto sentences = std::make_shared<const Sentences>(std::move(*read));
  SentenceSplit split = split_sentences(sentences->labels, request.seed);
  if (split.validation.empty() || split.test.empty()) {
    error = path + ": " + std::to_string(sentences->size()) +
            " sentences are too few to hold a tenth of each label back";
    return std::nullopt;
  }
  if (!sentences->note.empty()) sets.notes.push_back(sentences->note);
  if (sentences->skipped > 0)
    sets.notes.push_back(std::to_string(sentences->skipped) + " rows left out; " +
                         sentences->first_skipped);
  sets.vocabulary = sentences->vocabulary;
  sets.train = std::make_unique<TextBatches>(sentences, std::move(split.train));
  sets.validation = std::make_unique<TextBatches>(sentences, std::move(split.validation));
  sets.test = std::make_unique<TextBatches>(sentences, std::move(split.test));
  return sets;
}

}  // namespace hvdrun
