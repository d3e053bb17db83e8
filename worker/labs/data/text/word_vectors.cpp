#include "worker/labs/data/text/word_vectors.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>

#include "worker/labs/data/files/decoded_text.h"

namespace hvdrun {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

// Takes the next run of other characters off `line`; empty at its end.
std::string_view next_field(std::string_view& line) {
  while (!line.empty() && is_blank(line.front())) line.remove_prefix(1);
  std::size_t end = 0;
  while (end < line.size() && !is_blank(line[end])) ++end;
  const std::string_view field = line.substr(0, end);
  line.remove_prefix(end);
  return field;
}

bool parse_value(std::string_view field, float& value) {
  const auto [stop, trouble] = std::from_chars(field.data(), field.data() + field.size(), value);
  return trouble == std::errc() && stop == field.data() + field.size() && std::isfinite(value);
}

bool is_header(std::string_view line) {
  for (int i = 0; i < 2; ++i) {
    const std::string_view field = next_field(line);
    if (field.empty() || field.find_first_not_of("0123456789") != std::string_view::npos)
      return false;
  }
  return next_field(line).empty();
}

}  // namespace

std::optional<WordVectors> parse_word_vectors(std::string_view name, std::string_view text,
                                              std::size_t dimension, const Vocabulary& vocabulary,
                                              std::string& error) {
  WordVectors vectors;
  vectors.dimension = dimension;
  std::vector<bool> known(vocabulary.numbers());
  std::vector<float> values(dimension);
  std::vector<std::string_view> fields;
  const std::string_view whole = text;
  std::size_t number = 0;
  // `at` is a part of the text.
  const auto fail = [&](std::string_view at, const std::string& what) {
    error = std::string(name) + ":" + std::to_string(number) + ": byte " +
            std::to_string(at.data() - whole.data()) + ": " + what;
    return std::nullopt;
  };
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (++number == 1 && is_header(line)) continue;
    fields.clear();
    for (std::string_view field = next_field(line); !field.empty(); field = next_field(line))
      fields.push_back(field);
    if (fields.empty()) continue;
    if (fields.size() <= dimension)
      return fail(fields[0],
                  std::to_string(fields.size() - 1) + " numbers, not " + std::to_string(dimension));
    const std::size_t words = fields.size() - dimension;
    // A file of longer vectors is seen in its first line; later ones begin with a phrase, "at 1".
    float ignored = 0;
    if (words > 1 && vectors.words.empty() && vectors.skipped == 0 &&
        parse_value(fields[1], ignored))
      return fail(fields[0], "more than " + std::to_string(dimension) + " numbers");
    for (std::size_t i = 0; i < dimension; ++i)
      if (!parse_value(fields[words + i], values[i]))
        return fail(fields[words + i],
                    "'" + std::string(fields[words + i].substr(0, 40)) + "' is no finite number");
    const std::vector<std::uint32_t> numbers =
        words == 1 ? word_numbers(fields[0], vocabulary) : std::vector<std::uint32_t>();
    if (numbers.size() != 1) {
      ++vectors.skipped;
      continue;
    }
    if (known[numbers[0]]) continue;
    known[numbers[0]] = true;
    vectors.words.push_back(numbers[0]);
    vectors.values.insert(vectors.values.end(), values.begin(), values.end());
  }
  if (!vectors.words.empty()) return vectors;
  error = std::string(name) + ": no words";
  return std::nullopt;
}

std::optional<WordVectors> read_word_vectors(const std::string& path, std::size_t dimension,
                                             const Vocabulary& vocabulary, std::string& error) {
  const std::optional<std::string> text = read_text_file(path, kMaxVectorFile, error);
  if (!text) return std::nullopt;
  return parse_word_vectors(path, *text, dimension, vocabulary, error);
}

}  // namespace hvdrun
