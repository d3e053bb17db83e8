#include "worker/labs/data/text/sentences.h"

#include <algorithm>
#include <utility>

#include "worker/labs/data/files/csv.h"
#include "worker/labs/data/files/decoded_text.h"
#include "worker/labs/data/files/split_mix.h"
#include "worker/labs/data/text/class_values.h"

namespace hvdrun {
namespace {

constexpr std::size_t kShownColumns = 12;

std::string no_column(const CsvTable& table, const SentenceOptions& options) {
  std::string missing;
  std::string cure;
  const auto look_for = [&](const std::string& name, const char* option) {
    if (table.column(name)) return;
    missing.append(missing.empty() ? "no column " : ", no column ").append(csv_word(name));
    cure.append(cure.empty() ? "" : " and ").append(option);
  };
  look_for(options.text_column, "--text-column");
  look_for(options.label_column, "--label-column");
  std::string text = missing + "; there is:";
  for (std::size_t i = 0; i < std::min(table.columns.size(), kShownColumns); ++i)
    text += " " + csv_word(table.columns[i]);
  if (table.columns.size() > kShownColumns)
    text += " and " + std::to_string(table.columns.size() - kShownColumns) + " more";
  return text + " (the first line names them); choose with " + cure;
}

// Empty: the fields are as many as the columns in nearly all rows. A few damaged ones are passed
// over; more of them say that the file is not what it is taken for.
std::string odd_rows(const CsvTable& table) {
  const std::size_t rows = table.rows.size() + table.skipped;
  if (table.skipped <= rows / 100) return {};
  return table.first_skipped + ", and so in " + std::to_string(table.skipped) + " of " +
         std::to_string(rows) + " rows; a text with " + table.separator +
         " or a line break in it must be in quotes";
}

}  // namespace

std::optional<Sentences> parse_sentences(std::string_view name, std::string_view csv,
                                         const SentenceOptions& options, std::string& error) {
  const std::optional<CsvTable> table = parse_csv(name, csv, error);
  if (!table) return std::nullopt;
  const auto text = table->column(options.text_column);
  const auto label = table->column(options.label_column);
  if (!text || !label) {
    error = csv_place(name, table->header) + ": " + no_column(*table, options);
    return std::nullopt;
  }
  error = odd_rows(*table);
  if (!error.empty()) return std::nullopt;
  const auto wrong_labels = [&](const std::string& why) {
    error = std::string(name) + ": column " + csv_word(options.label_column) + ": " + why +
            "; --label-column names another column";
    return std::nullopt;
  };
  ClassValues classes;
  for (const auto& row : table->rows)
    if (!classes.add(row[*label]))
      return wrong_labels("more than " + std::to_string(kMaxClassValues) +
                          " values, two are expected; there is: " + classes.seen());
  if (table->rows.empty()) {
    error = std::string(name) + ": no rows below the names of the columns";
    if (table->skipped > 0) error += " (" + table->first_skipped + ")";
    return std::nullopt;
  }
  std::string why;
  if (!classes.choose(why)) return wrong_labels(why);
  Sentences sentences;
  sentences.note = classes.note();
  sentences.skipped = table->skipped;
  sentences.first_skipped = table->first_skipped;
  bool said = false;
  const auto skip = [&](std::size_t row, const std::string& reason) {
    ++sentences.skipped;
    if (std::exchange(said, true)) return;
    sentences.first_skipped += (sentences.first_skipped.empty() ? "" : "; ") +
                               csv_place(name, table->places[row]) + ": " + reason;
  };
  std::vector<std::size_t> kept;  // rows
  std::size_t rows_of[2] = {};
  for (std::size_t row = 0; row < table->rows.size(); ++row) {
    const std::string& given = table->rows[row][*label];
    const auto value = classes.label(given);
    if (!value) {
      skip(row, "the label " + csv_word(given) + " is neither of the two");
      continue;
    }
    // However many they are: a model of words learns nothing from a text that has none.
    if (words_of(table->rows[row][*text]).empty()) {
      skip(row, "no word in it");
      continue;
    }
    kept.push_back(row);
    ++rows_of[*value];
    sentences.labels.push_back(*value);
  }
  if (rows_of[0] == 0 || rows_of[1] == 0) {
    error = std::string(name) + ": column " + csv_word(options.text_column) +
            ": no word in all rows of a label (" + sentences.first_skipped +
            "); --text-column names another column";
    return std::nullopt;
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
  return sentences;
}

std::optional<Sentences> read_sentences(const std::string& path, const SentenceOptions& options,
                                        std::string& error) {
  const auto text = read_text_file(path, kMaxSentenceFile, error);
  if (!text) return std::nullopt;
  return parse_sentences(path, *text, options, error);
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
