// Sentences of two classes from a CSV file, their words as numbers, and a split in three.
//
// C++17: the labs include this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "worker/labs/data/text/vocabulary.h"

namespace hvdrun {

inline constexpr std::size_t kMaxSentenceFile = std::size_t{1} << 30;  // bytes, unpacked

struct Sentences {
  Vocabulary vocabulary;  // the words' numbers are its
  std::vector<std::vector<std::uint32_t>> words;
  std::vector<std::uint8_t> labels;  // 0 or 1
  std::string note;  // which of the file's labels is 1; empty, where they are 0 and 1 themselves
  // Rows left out: another number of fields, a label that is neither, no word at all. Where one of
  // them is and why, in words.
  std::size_t skipped = 0;
  std::string first_skipped;

  std::size_t size() const { return labels.size(); }
};

struct SentenceOptions {
  std::string text_column = "text";
  std::string label_column = "label";
  // So many of the words that are most frequent in the training part of split_sentences() have a
  // number of their own: those of the other parts are as new as they will be later.
  std::size_t vocabulary = 0;
  std::uint64_t split_seed = 1;
  std::uint32_t word_numbers = kWordNumbers;  // 0 included
};

// None, and `error` names `name` and says what is wrong: no table, no such column, or labels that
// are not of two classes (class_values.h). Rows of another number of fields or without a label may
// be a hundredth.
std::optional<Sentences> parse_sentences(std::string_view name, std::string_view csv,
                                         const SentenceOptions& options, std::string& error);
std::optional<Sentences> read_sentences(const std::string& path, const SentenceOptions& options,
                                        std::string& error);

struct SentenceSplit {
  std::vector<std::uint32_t> train;
  std::vector<std::uint32_t> validation;
  std::vector<std::uint32_t> test;
};

// A tenth (rounded) of each label for validation and a tenth for the test, chosen by `seed`; the
// numbers of each part ascend. A label with a single sentence has it in the training part.
SentenceSplit split_sentences(const std::vector<std::uint8_t>& labels, std::uint64_t seed);

}  // namespace hvdrun
