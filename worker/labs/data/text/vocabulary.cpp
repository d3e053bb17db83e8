#include "worker/labs/data/text/vocabulary.h"

#include <algorithm>
#include <utility>

#include "worker/labs/data/files/split_mix.h"

namespace hvdrun {
namespace {

// Without the locale: the same words everywhere.
bool is_of_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         static_cast<unsigned char>(c) > 127;
}

std::uint64_t hash_of_word(std::string_view word) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : word) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3;
  }
  return hash;
}

}  // namespace

Vocabulary::Vocabulary(const Counts& counts, std::size_t size, std::uint32_t numbers)
    : all_(numbers) {
  std::vector<Counts::const_iterator> words;
  words.reserve(counts.size());
  for (auto word = counts.begin(); word != counts.end(); ++word) words.push_back(word);
  const std::size_t kept = std::min({size, words.size(), kMaxVocabulary, std::size_t{numbers} - 2});
  // They are sorted by their bytes already.
  std::stable_sort(words.begin(), words.end(),
                   [](const auto& a, const auto& b) { return a->second > b->second; });
  for (std::size_t i = 0; i < kept; ++i)
    numbers_.emplace(words[i]->first, static_cast<std::uint32_t>(1 + i));
}

std::uint32_t Vocabulary::number(std::string_view word) const {
  const auto found = numbers_.find(word);
  if (found != numbers_.end()) return found->second;
  const auto first = static_cast<std::uint32_t>(1 + size());
  // The low bits of FNV depend on the low bits of the letters only.
  return static_cast<std::uint32_t>(first + SplitMix(hash_of_word(word)).below(all_ - first));
}

std::vector<std::string> words_of(std::string_view sentence) {
  std::vector<std::string> words;
  std::string word;
  for (std::size_t i = 0; i <= sentence.size() && words.size() < kMaxWords; ++i) {
    const char c = i < sentence.size() ? sentence[i] : ' ';
    if (is_of_word(c)) {
      word += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
      continue;
    }
    if (c == '\'' && !word.empty() && i + 1 < sentence.size() && is_of_word(sentence[i + 1]))
      continue;
    if (!word.empty()) words.push_back(std::exchange(word, {}));
  }
  return words;
}

std::vector<std::uint32_t> word_numbers(std::string_view sentence, const Vocabulary& vocabulary) {
  std::vector<std::uint32_t> numbers;
  for (const std::string& word : words_of(sentence)) numbers.push_back(vocabulary.number(word));
  return numbers;
}

}  // namespace hvdrun
