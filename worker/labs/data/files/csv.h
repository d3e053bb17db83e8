// Comma-separated values with quoted fields (RFC 4180): a field in double quotes may contain
// commas, line breaks and, doubled, quotes. Lines end with LF or CRLF; empty lines are passed over.
// Tabs or semicolons may stand for the commas: the first line tells.
//
// C++17: the labs include this.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

inline constexpr std::size_t kMaxCsvColumns = 1000;
inline constexpr std::size_t kMaxCsvField = std::size_t{1} << 20;  // bytes

// Where something stands in the file.
struct CsvPlace {
  std::size_t line = 1;  // from 1
  std::size_t byte = 0;  // from 0, a byte order mark counted
};

// "f.csv:3: byte 57", as messages begin.
std::string csv_place(std::string_view name, const CsvPlace& place);
// A name or a value in quotes, as messages have it: a long one is cut.
std::string csv_word(std::string_view value);

struct CsvTable {
  std::vector<std::string> columns;  // the first row: their names, which may be empty
  const char* separator = "";        // "a comma"
  CsvPlace header;
  std::vector<std::vector<std::string>> rows;  // each with a field for every column
  std::vector<CsvPlace> places;                // where each of them begins
  // Rows with another number of fields, left out; where the first of them is and why, in words.
  std::size_t skipped = 0;
  std::string first_skipped;

  // The position of a column; none when there is none of that name.
  std::optional<std::size_t> column(std::string_view name) const;
};

// None, and `error` names `name`, the line and the byte, when the text is no table. Its faults: no
// first row, a column's name twice, an open quote, text between a closing quote and the separator,
// a field over the limit. A byte order mark is passed over.
std::optional<CsvTable> parse_csv(std::string_view name, std::string_view text, std::string& error);

// A field as it stands in such a file, in quotes where it needs them.
std::string csv_field(std::string_view value);

}  // namespace hvdrun
