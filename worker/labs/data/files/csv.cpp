#include "worker/labs/data/files/csv.h"

#include <algorithm>
#include <array>
#include <utility>

namespace hvdrun {
namespace {

constexpr std::string_view kMark = "\xef\xbb\xbf";  // of byte order

struct Separator {
  char character;
  const char* name;
};
// Between two that a header has equally often the one before wins: names of columns may have a
// comma in them, but hardly a tab.
constexpr std::array<Separator, 3> kSeparators = {
    {{'\t', "a tab"}, {',', "a comma"}, {';', "a semicolon"}}};

std::size_t begin_of(std::string_view text) {
  const std::size_t mark = text.substr(0, kMark.size()) == kMark ? kMark.size() : 0;
  return std::min(text.find_first_not_of("\r\n", mark), text.size());
}

// The one that stands most often between the fields of the header; a comma where none does.
Separator separator_of(std::string_view text) {
  std::array<std::size_t, kSeparators.size()> counts{};
  bool quoted = false;
  bool begins = true;  // a field
  for (std::size_t at = begin_of(text); at < text.size(); ++at) {
    const char c = text[at];
    if (quoted) {
      if (c == '"' && text.substr(at + 1, 1) == "\"")
        ++at;
      else if (c == '"')
        quoted = false;
      continue;
    }
    if (c == '\n') break;
    quoted = begins && c == '"';
    begins = false;
    for (std::size_t i = 0; i < counts.size(); ++i) {
      if (c != kSeparators[i].character) continue;
      ++counts[i];
      begins = true;
    }
  }
  const auto most = std::max_element(counts.begin(), counts.end());
  return *most == 0 ? kSeparators[1]
                    : kSeparators.at(static_cast<std::size_t>(most - counts.begin()));
}

class CsvReader {
 public:
  explicit CsvReader(std::string_view text)
      : text_(text),
        separator_(separator_of(text)),
        at_(text.substr(0, kMark.size()) == kMark ? kMark.size() : 0) {}

  const Separator& separator() const { return separator_; }

  // Where the row begins, or after an error what is wrong with it.
  const CsvPlace& place() const { return place_; }
  const std::string& error() const { return error_; }

  // False at the end, and after an error.
  bool row(std::vector<std::string>& fields) {
    while (line_break()) {
    }
    if (at_ == text_.size()) return false;
    place_ = {line_, at_};
    fields.clear();
    while (true) {
      if (fields.size() == kMaxCsvColumns)
        return fail({line_, at_},
                    "more than " + std::to_string(kMaxCsvColumns) + " fields in a row");
      if (!(text_.substr(at_, 1) == "\"" ? quoted(fields) : plain(fields))) return false;
      if (at_ == text_.size() || line_break()) return true;
      ++at_;  // a separator
    }
  }

 private:
  bool fail(const CsvPlace& place, const std::string& text) {
    place_ = place;
    error_ = text;
    at_ = text_.size();
    return false;
  }

  bool line_break() {
    const std::size_t length = text_.substr(at_, 2) == "\r\n" ? 2 : text_.substr(at_, 1) == "\n";
    at_ += length;
    if (length > 0) ++line_;
    return length > 0;
  }

  bool plain(std::vector<std::string>& fields) {
    const CsvPlace begins{line_, at_};
    const std::array<char, 2> stops = {separator_.character, '\n'};
    const std::size_t end = std::min(
        text_.find_first_of(std::string_view(stops.data(), stops.size()), at_), text_.size());
    std::string_view field = text_.substr(at_, end - at_);
    at_ = end;
    if (end < text_.size() && text_[end] == '\n' && !field.empty() && field.back() == '\r') {
      field.remove_suffix(1);
      --at_;
    }
    return add(fields, begins, std::string(field));
  }

  bool quoted(std::vector<std::string>& fields) {
    const CsvPlace begins{line_, at_};
    std::string field;
    ++at_;
    while (true) {
      const std::size_t quote = text_.find('"', at_);
      if (quote == std::string_view::npos) return fail(begins, "a quote that is never closed");
      const std::string_view part = text_.substr(at_, quote - at_);
      line_ += static_cast<std::size_t>(std::count(part.begin(), part.end(), '\n'));
      field += part;
      at_ = quote + 1;
      if (text_.substr(at_, 1) != "\"") break;
      field += '"';
      ++at_;
    }
    const std::string_view next = text_.substr(at_, 2);
    if (!next.empty() && next[0] != separator_.character && next[0] != '\n' && next != "\r\n")
      return fail({line_, at_}, std::string("after a closing quote ") + separator_.name +
                                    " or the end of the line is expected");
    return add(fields, begins, std::move(field));
  }

  bool add(std::vector<std::string>& fields, const CsvPlace& begins, std::string field) {
    if (field.size() > kMaxCsvField)
      return fail(begins, "a field of " + std::to_string(field.size()) + " bytes, at most " +
                              std::to_string(kMaxCsvField) + " expected");
    fields.push_back(std::move(field));
    return true;
  }

  std::string_view text_;
  Separator separator_;
  std::size_t at_;
  std::size_t line_ = 1;
  CsvPlace place_;
  std::string error_;
};

}  // namespace

std::string csv_place(std::string_view name, const CsvPlace& place) {
  return std::string(name) + ":" + std::to_string(place.line) + ": byte " +
         std::to_string(place.byte);
}

std::string csv_word(std::string_view value) {
  std::size_t shown = 40;
  if (value.size() <= shown) return "'" + std::string(value) + "'";
  // No letter of UTF-8 is cut in two.
  while (shown > 0 && (static_cast<unsigned char>(value[shown]) & 0xc0U) == 0x80) --shown;
  return "'" + std::string(value.substr(0, shown)) + "'...";
}

std::optional<std::size_t> CsvTable::column(std::string_view name) const {
  const auto found = std::find(columns.begin(), columns.end(), name);
  if (found == columns.end()) return std::nullopt;
  return static_cast<std::size_t>(found - columns.begin());
}

std::optional<CsvTable> parse_csv(std::string_view name, std::string_view text,
                                  std::string& error) {
  CsvReader reader(text);
  CsvTable table;
  const auto wrong = [&](const std::string& why) {
    error = csv_place(name, reader.place()) + ": " + why;
    return std::nullopt;
  };
  if (!reader.row(table.columns))
    return wrong(reader.error().empty() ? "no row with the names of the columns" : reader.error());
  table.header = reader.place();
  table.separator = reader.separator().name;
  // Columns without a name are nobody's: that of the rows' numbers, say.
  for (auto one = table.columns.begin(); one != table.columns.end(); ++one)
    if (!one->empty() && std::find(table.columns.begin(), one, *one) != one)
      return wrong("two columns are called " + csv_word(*one));
  std::vector<std::string> fields;
  while (reader.row(fields)) {
    if (fields.size() == table.columns.size()) {
      table.rows.push_back(fields);
      table.places.push_back(reader.place());
      continue;
    }
    if (table.skipped++ == 0)
      table.first_skipped = csv_place(name, reader.place()) + ": " + std::to_string(fields.size()) +
                            " fields, " + std::to_string(table.columns.size()) + " expected";
  }
  if (!reader.error().empty()) return wrong(reader.error());
  return table;
}

std::string csv_field(std::string_view value) {
  if (value.find_first_of(",;\t\"\r\n") == std::string_view::npos) return std::string(value);
  std::string field = "\"";
  for (const char c : value) {
    if (c == '"') field += '"';
    field += c;
  }
  return field + '"';
}

}  // namespace hvdrun
