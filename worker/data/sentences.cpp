#include "worker/data/sentences.h"

#include <algorithm>
#include <utility>

#include "worker/data/csv.h"
#include "worker/data/split_mix.h"
#include "worker/data/whole_file.h"

namespace hvdrun {
namespace {

// Without the locale: the same words everywhere.
bool is_of_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         static_cast<unsigned char>(c) > 127;
}

std::uint32_t number_of_word(std::string_view word) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : word) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3;
  }
  // The low bits of FNV depend on the low bits of the letters only.
  return static_cast<std::uint32_t>(1 + SplitMix(hash).below(kWordNumbers - 1));
}

}  // namespace

std::vector<std::uint32_t> word_numbers(std::string_view sentence) {
  std::vector<std::uint32_t> numbers;
  std::string word;
  for (std::size_t i = 0; i <= sentence.size() && numbers.size() < kMaxWords; ++i) {
    const char c = i < sentence.size() ? sentence[i] : ' ';
    if (is_of_word(c)) {
      word += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
      continue;
    }
    if (c == '\'' && !word.empty() && i + 1 < sentence.size() && is_of_word(sentence[i + 1]))
      continue;
    if (!word.empty()) numbers.push_back(number_of_word(word));
    word.clear();
  }
  return numbers;
}

std::optional<Sentences> parse_sentences(std::string_view name, std::string_view csv,
                                         const SentenceColumns& columns, std::string& error) {
  const std::optional<CsvTable> table = parse_csv(name, csv, error);
  if (!table) return std::nullopt;
  const auto text = table->column(columns.text);
  const auto label = table->column(columns.label);
  if (!text || !label) {
    error = std::string(name) + ": no column '" + (text ? columns.label : columns.text) +
            "'; there is:";
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
    sentences.first_skipped += (sentences.first_skipped.empty() ? "" : "; ") + std::string(name) +
                               ": sentence " + std::to_string(row + 1) + ": " + why;
  };
  for (std::size_t row = 0; row < table->rows.size(); ++row) {
    const std::string& given = table->rows[row][*label];
    if (given != "0" && given != "1") {
      skip(row, "a label of 0 or 1 is expected");
      continue;
    }
    std::vector<std::uint32_t> words = word_numbers(table->rows[row][*text]);
    if (words.empty()) {
      skip(row, "no word in it");
      continue;
    }
    sentences.words.push_back(std::move(words));
    sentences.labels.push_back(given == "1");
  }
  if (sentences.size() > 0) return sentences;
  error = std::string(name) + ": no sentence with a label of 0 or 1";
  if (!sentences.first_skipped.empty()) error += " (" + sentences.first_skipped + ")";
  return std::nullopt;
}

std::optional<Sentences> read_sentences(const std::string& path, const SentenceColumns& columns,
                                        std::string& error) {
  const auto bytes = read_whole_file(path, kMaxSentenceFile, error);
  if (!bytes) return std::nullopt;
  return parse_sentences(path, *bytes, columns, error);
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
