#include "worker/data/sentences.h"

#include <algorithm>
#include <utility>

#include "worker/data/csv.h"
#include "worker/data/split_mix.h"
#include "worker/data/whole_file.h"

namespace hvdrun {
std::optional<Sentences> parse_sentences(std::string_view name, std::string_view csv,
                                         const SentenceOptions& options, std::string& error) {
  const std::optional<CsvTable> table = parse_csv(name, csv, error);
  if (!table) return std::nullopt;
  const auto text = table->column(options.text_column);
  const auto label = table->column(options.label_column);
  if (!text || !label) {
    error = csv_place(name, table->header) + ": no column '" +
            (text ? options.label_column : options.text_column) + "'; there is:";
    for (const std::string& column : table->columns) error += " '" + column + "'";
    return std::nullopt;
  }
  Sentences sentences;
  sentences.skipped = table->skipped;
  sentences.first_skipped = table->first_skipped;
  bool said = false;
  const auto skip = [&](std::size_t row, const char* why) {
    ++sentences.skipped;
    if (std::exchange(said, true)) return;
    sentences.first_skipped += (sentences.first_skipped.empty() ? "" : "; ") +
                               csv_place(name, table->places[row]) + ": " + why;
  };
  std::vector<std::size_t> kept;  // rows
  for (std::size_t row = 0; row < table->rows.size(); ++row) {
    const std::string& given = table->rows[row][*label];
    if (given != "0" && given != "1") {
      skip(row, "a label of 0 or 1 is expected");
      continue;
    }
    if (words_of(table->rows[row][*text]).empty()) {
      skip(row, "no word in it");
      continue;
    }
    kept.push_back(row);
    sentences.labels.push_back(given == "1");
  }
  sentences.vocabulary = Vocabulary(options.word_numbers);
  if (options.vocabulary > 0) {
    Vocabulary::Counts counts;
    for (const std::uint32_t i : split_sentences(sentences.labels, options.split_seed).train)
      for (const std::string& word : words_of(table->rows[kept[i]][*text])) ++counts[word];
    sentences.vocabulary = Vocabulary(counts, options.vocabulary, options.word_numbers);
  }
  for (const std::size_t row : kept)
    sentences.words.push_back(word_numbers(table->rows[row][*text], sentences.vocabulary));
  if (sentences.size() > 0) return sentences;
  error = std::string(name) + ": no sentence with a label of 0 or 1";
  if (!sentences.first_skipped.empty()) error += " (" + sentences.first_skipped + ")";
  return std::nullopt;
}

std::optional<Sentences> read_sentences(const std::string& path, const SentenceOptions& options,
                                        std::string& error) {
  const auto bytes = read_whole_file(path, kMaxSentenceFile, error);
  if (!bytes) return std::nullopt;
  return parse_sentences(path, *bytes, options, error);
}

SentenceSplit split_sentences(const std::vector<std::uint8_t>& labels, std::uint64_t seed) {
  SentenceSplit split;
  for (const std::uint8_t label : {std::uint8_t{0}, std::uint8_t{1}}) {
    std::vector<std::uint32_t> all;
    for (std::size_t i = 0; i < labels.size(); ++i)
      if (labels[i] == label) all.push_back(static_cast<std::uint32_t>(i));
    SplitMix random(seed, label);
    for (std::size_t i = all.size(); i > 1; --i) std::swap(all[i - 1], all[random.below(i)]);
    const auto tenth = static_cast<std::ptrdiff_t>((all.size() + 5) / 10);
    // So few that two tenths would be all of them: they are for training.
    const auto part = all.size() < 3 ? 0 : tenth;
    split.validation.insert(split.validation.end(), all.begin(), all.begin() + part);
    split.test.insert(split.test.end(), all.begin() + part, all.begin() + 2 * part);
    split.train.insert(split.train.end(), all.begin() + 2 * part, all.end());
  }
  for (auto* part : {&split.train, &split.validation, &split.test})
    std::sort(part->begin(), part->end());
  return split;
}

}  // namespace hvdrun
