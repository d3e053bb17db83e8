// Sentences with a label of 0 or 1 from a CSV file, their words as numbers, and a split in three.
//
// A word is a run of letters, digits and bytes above 127 (so UTF-8 stays whole); capital letters of
// ASCII become small ones, an apostrophe inside is left out ("don't" is "dont"). Its number is a
// hash (FNV-1a, 64 bits, then mixed): the same on every machine, and no vocabulary is needed. Two
// words may share a number.
//
// C++17: the labs include this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

inline constexpr std::uint32_t kWordNumbers = std::uint32_t{1} << 17;
inline constexpr std::size_t kMaxWords = 512;  // of a sentence; what follows is not read
inline constexpr std::uint64_t kMaxSentenceFile = std::uint64_t{1} << 30;  // bytes

// 1 to kWordNumbers - 1 for each word; 0 is no word.
std::vector<std::uint32_t> word_numbers(std::string_view sentence);

struct Sentences {
  std::vector<std::vector<std::uint32_t>> words;
  std::vector<std::uint8_t> labels;  // 0 or 1
  // Rows left out: another number of fields, a label that is neither, no word at all. Where one of
  // them is and why, in words.
  std::size_t skipped = 0;
  std::string first_skipped;

  std::size_t size() const { return labels.size(); }
};

struct SentenceColumns {
  std::string text = "text";
  std::string label = "label";
};

// None, and `error` names `name` and says what is wrong: no table, no such column, no sentence.
std::optional<Sentences> parse_sentences(std::string_view name, std::string_view csv,
                                         const SentenceColumns& columns, std::string& error);
std::optional<Sentences> read_sentences(const std::string& path, const SentenceColumns& columns,
                                        std::string& error);

struct SentenceSplit {
  std::vector<std::uint32_t> train;
  std::vector<std::uint32_t> validation;
  std::vector<std::uint32_t> test;
};

// Of each label a tenth (rounded) for validation and a tenth for the test, chosen by `seed`; the
// numbers of each part ascend. A label with a single sentence has it in the training part.
SentenceSplit split_sentences(const std::vector<std::uint8_t>& labels, std::uint64_t seed);

}  // namespace hvdrun
