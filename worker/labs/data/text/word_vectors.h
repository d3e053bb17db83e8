// Vectors of words from a text file: a word and its numbers in each line, separated by blanks, as
// word2vec, GloVe and fastText write them. A first line of two numbers, how many words and how many
// numbers each, is passed over.
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

inline constexpr std::size_t kMaxVectorFile = std::size_t{8} << 30;  // bytes, unpacked

struct WordVectors {
  std::size_t dimension = 0;
  std::vector<std::uint32_t> words;  // their numbers; of two alike the first counts
  std::vector<float> values;         // a row for each word
  // Lines whose word is none by word_numbers(): punctuation, words with a blank.
  std::size_t skipped = 0;
};

// The last `dimension` fields of a line are its numbers. None, and `error` names `name`, line and
// byte: fewer values than `dimension`, more of them in the first line, one that is no finite
// number, no word at all.
std::optional<WordVectors> parse_word_vectors(std::string_view name, std::string_view text,
                                              std::size_t dimension, const Vocabulary& vocabulary,
                                              std::string& error);
std::optional<WordVectors> read_word_vectors(const std::string& path, std::size_t dimension,
                                             const Vocabulary& vocabulary, std::string& error);

}  // namespace hvdrun
