// Files of text, as UTF-8 or any other encoding that has ASCII's bytes for ASCII's characters; they
// may be packed by gzip. What is no such text is named, with what makes one of it: two bytes for a
// character, archives, files of tables and of other compressors.
//
// C++17: the labs include this.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace hvdrun {

// At most `limit` bytes of text, packed or not. None, and `error` begins with the path.
std::optional<std::string> read_text_file(const std::string& path, std::size_t limit,
                                          std::string& error);
// The text of a file's bytes.
std::optional<std::string> decode_text(std::string_view name, std::string bytes, std::size_t limit,
                                       std::string& error);

}  // namespace hvdrun
