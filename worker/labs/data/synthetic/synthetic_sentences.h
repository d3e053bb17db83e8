// Made-up reviews with a label: 1 when the writer liked it.
//
// Each has three words of praise or blame, more of the one than of the other, among words that say
// nothing. In three of ten a word of irony turns the meaning around: no word alone decides. A sum
// over words (a linear model of the bag) is wrong about those three; a bag with hidden layers can
// have all. Punctuation brings commas, quotes and line breaks into the fields.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace hvdrun {

// A CSV file with the columns id, text and label; half of the labels are 1.
std::string synthetic_sentences(std::size_t count, std::uint64_t seed);

}  // namespace hvdrun
