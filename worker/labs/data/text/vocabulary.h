// The numbers of words. A word is a run of letters, digits and bytes above 127 (so UTF-8 stays
// whole); capital letters of ASCII become small ones, an apostrophe inside is left out ("don't" is
// "dont").
//
// Words of a vocabulary have a number each. All others share the numbers behind them, by a hash
// (FNV-1a, 64 bits, then mixed) that is the same on every machine; without a vocabulary those are
// all words.
//
// C++17: the labs include this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

inline constexpr std::uint32_t kWordNumbers = std::uint32_t{1} << 17;  // unless told otherwise
inline constexpr std::size_t kMaxVocabulary = 100'000;
inline constexpr std::size_t kMaxWords = 512;  // of a sentence; what follows is not read

class Vocabulary {
 public:
  using Counts = std::map<std::string, std::uint64_t, std::less<>>;

  // Without a word.
  Vocabulary() = default;
  explicit Vocabulary(std::uint32_t numbers) : all_(numbers) {}
  // The `size` words that `counts` has most often, at most kMaxVocabulary; of two alike the one
  // whose bytes come first. They leave at least one of the numbers to the others.
  Vocabulary(const Counts& counts, std::size_t size, std::uint32_t numbers = kWordNumbers);

  std::size_t size() const { return numbers_.size(); }
  // That there are, 0 included: 2 at least.
  std::uint32_t numbers() const { return all_; }
  // From 1, the most frequent word, to size() for its words; to numbers() - 1 for the others.
  std::uint32_t number(std::string_view word) const;

 private:
  std::uint32_t all_ = kWordNumbers;
  std::map<std::string, std::uint32_t, std::less<>> numbers_;
};

// As words are counted and numbered; at most kMaxWords.
std::vector<std::string> words_of(std::string_view sentence);
// A number for each word; 0 is no word.
std::vector<std::uint32_t> word_numbers(std::string_view sentence,
                                        const Vocabulary& vocabulary = {});

}  // namespace hvdrun
