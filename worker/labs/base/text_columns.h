// Text in columns: how wide a word is on a terminal, and how it is cut or filled up. No LibTorch in
// here.
#pragma once

#include <cstddef>
#include <string>

namespace hvdrun {

// Characters of UTF-8, each taken for one column.
std::size_t columns_of(const std::string& text);
// At most `width` columns of it; where something is missing, ".." at the end says so.
std::string cut_to(const std::string& text, std::size_t width);
// With blanks up to `width` columns.
std::string left_aligned(const std::string& text, std::size_t width);
std::string right_aligned(const std::string& text, std::size_t width);

}  // namespace hvdrun
