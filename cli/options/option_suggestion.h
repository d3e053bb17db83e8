// The option that was meant by a word that is no option: one that is misspelled, or cut short.
#pragma once

#include <string>
#include <string_view>

namespace hvdrun {

// Empty when none is near.
std::string nearest_option(std::string_view word);

// horovodrun takes its long options cut short (--fusion-thresh). In one line what to write for such
// a word: an option, which of several, or what replaces the one that is meant. Empty: it begins no
// option, or too many.
std::string abbreviation_advice(std::string_view word);

}  // namespace hvdrun
