// Words of a user or a file, as they can stand in a message of one line.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace hvdrun {

inline constexpr std::size_t kMaxPrintable = 200;  // bytes; what is longer is cut

// Control characters as \n, \t or \x1b, so that no word breaks a line or steers a terminal.
std::string printable(std::string_view text, std::size_t limit = kMaxPrintable);
// The same in single quotes.
std::string quoted_word(std::string_view text);

}  // namespace hvdrun
