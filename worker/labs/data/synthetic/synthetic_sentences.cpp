#include "worker/labs/data/synthetic/synthetic_sentences.h"

#include <array>
#include <utility>
#include <vector>

#include "worker/labs/data/files/csv.h"
#include "worker/labs/data/files/split_mix.h"

namespace hvdrun {
namespace {

constexpr std::array<const char*, 16> kPraise = {
    "splendid", "warm",   "clever", "gripping", "lovely", "honest", "brilliant", "tender",
    "crisp",    "moving", "rich",   "graceful", "funny",  "bold",   "fresh",     "perfect"};
constexpr std::array<const char*, 16> kBlame = {
    "dull",   "clumsy", "stale",  "noisy", "shallow", "bitter", "tedious",   "flat",
    "broken", "cold",   "sloppy", "weak",  "dreary",  "ugly",   "pointless", "awful"};
constexpr std::array<const char*, 4> kIrony = {"supposedly", "allegedly", "yeah", "hardly"};
constexpr std::array<const char*, 24> kPlain = {
    "the",    "film",   "story", "evening", "meal", "actor", "scene", "music",
    "ending", "waiter", "book",  "and",     "with", "a",     "was",   "it's",
    "we",     "saw",    "café",  "last",    "week", "quite", "there", "again"};
constexpr std::array<const char*, 8> kBetween = {" ", " ", " ", " ", ", ", " \"so\" ", "\n", " - "};

template <std::size_t N>
const char* one_of(const std::array<const char*, N>& words, SplitMix& random) {
  return words.at(random.below(N));
}

std::string review(bool liked, SplitMix& random) {
  const bool irony = random.below(10) < 3;
  const bool praise = liked != irony;
  std::vector<const char*> words;
  const std::uint64_t others = random.below(2);  // of the three, those that say the opposite
  for (std::uint64_t i = 0; i < 3; ++i)
    words.push_back((i < others) != praise ? one_of(kPraise, random) : one_of(kBlame, random));
  if (irony) words.push_back(one_of(kIrony, random));
  for (std::uint64_t i = 3 + random.below(6); i > 0; --i) words.push_back(one_of(kPlain, random));
  for (std::size_t i = words.size(); i > 1; --i) std::swap(words[i - 1], words[random.below(i)]);
  std::string text;
  for (const char* const word : words) {
    if (!text.empty()) text += one_of(kBetween, random);
    text += word;
  }
  return text + ".";
}

}  // namespace

std::string synthetic_sentences(std::size_t count, std::uint64_t seed) {
  std::string csv = "id,text,label\n";
  for (std::size_t i = 0; i < count; ++i) {
    SplitMix random(seed, i);
    const bool liked = i % 2 == 1;
    csv += std::to_string(i) + "," + csv_field(review(liked, random)) + (liked ? ",1\n" : ",0\n");
  }
  return csv;
}

}  // namespace hvdrun
