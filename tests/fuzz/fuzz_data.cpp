// Data files. Of text: a table, sentences of a table, packed or not, vectors of words. Of bytes: an
// Example, the header of a record, arrays of a MAT-file, a JPEG, a PNG. What is read stays within
// the input, and what a reader accepts it accepts again as its writer writes it.
#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "worker/labs/data/files/csv.h"
#include "worker/labs/data/files/decoded_text.h"
#include "worker/labs/data/files/example.h"
#include "worker/labs/data/files/mat_file.h"
#include "worker/labs/data/files/records.h"
#include "worker/labs/data/images/image.h"
#include "worker/labs/data/text/sentences.h"
#include "worker/labs/data/text/word_vectors.h"

namespace {

using namespace hvdrun;

void check_example(std::string_view bytes) {
  std::string error;
  const auto example = parse_example(bytes, error);
  assert(example.has_value() == error.empty());
  if (!example) return;
  const std::string written = encode_example(*example);
  const auto again = parse_example(written, error);
  assert(again && again->features().size() == example->features().size());
}

void check_table(std::string_view text) {
  std::string error;
  const auto table = parse_csv("f", text, error);
  assert(table.has_value() == error.empty());
  if (!table) return;
  std::string written = "\xef\xbb\xbf";  // or one that begins the first column's name would go
  const auto write = [&](const std::vector<std::string>& row) {
    // One empty field alone would be an empty line.
    for (std::size_t i = 0; i < row.size(); ++i)
      written +=
          (i > 0 ? "," : "") + (row.size() == 1 && row[0].empty() ? "\"\"" : csv_field(row[i]));
    written += '\n';
  };
  write(table->columns);
  for (const auto& row : table->rows) write(row);
  const auto again = parse_csv("f", written, error);
  assert(again && again->columns == table->columns && again->rows == table->rows);
}

bool are_words(const std::vector<std::uint32_t>& numbers) {
  return std::all_of(numbers.begin(), numbers.end(),
                     [](std::uint32_t word) { return word > 0 && word < kWordNumbers; });
}

// Each sentence is in one part of the split.
void check_sentences(std::string_view bytes) {
  std::string error;
  const auto decoded = decode_text("f", std::string(bytes), std::size_t{1} << 16U, error);
  assert(decoded.has_value() == error.empty());
  if (!decoded) return;
  const std::string_view text = *decoded;
  const auto sentences = parse_sentences("f", text, {"t", "l", text.size() % 4}, error);
  assert(sentences.has_value() == error.empty());
  if (!sentences) return;
  for (const std::uint8_t label : {std::uint8_t{0}, std::uint8_t{1}})
    assert(std::count(sentences->labels.begin(), sentences->labels.end(), label) > 0);
  assert(sentences->words.size() == sentences->size());
  assert(sentences->vocabulary.size() <= text.size() % 4);
  assert((sentences->skipped > 0) == !sentences->first_skipped.empty());
  for (const auto& words : sentences->words)
    assert(!words.empty() && words.size() <= kMaxWords && are_words(words));
  const SentenceSplit split = split_sentences(sentences->labels, text.size());
  std::vector<int> seen(sentences->size());
  for (const auto* part : {&split.train, &split.validation, &split.test})
    for (const std::uint32_t index : *part) ++seen.at(index);
  assert(std::all_of(seen.begin(), seen.end(), [](int times) { return times == 1; }));
}

void check_word_vectors(std::string_view text) {
  std::string error;
  const auto vectors = parse_word_vectors("f", text, 2, {}, error);
  assert(vectors.has_value() == error.empty());
  if (!vectors) return;
  assert(!vectors->words.empty() && vectors->values.size() == 2 * vectors->words.size());
  assert(are_words(vectors->words));
  assert(std::all_of(vectors->values.begin(), vectors->values.end(),
                     [](float value) { return std::isfinite(value); }));
}

void check_record_header(std::string_view bytes) {
  if (bytes.size() < kRecordHeader) return;
  std::string error;
  const auto length = record_length(bytes.substr(0, kRecordHeader), error);
  assert(length.has_value() == error.empty());
  assert(!length || *length <= kMaxRecordBytes);
}

// A length that reads past the array would meet the address sanitizer.
void check_arrays(std::string_view bytes) {
  // Before the elements; a fuzzer rarely guesses it.
  std::string file(124, ' ');
  file += std::string("\0\1IM", 4);
  file += bytes;
  std::string error;
  const auto arrays = parse_mat("f", file, error);
  assert(arrays.has_value() == error.empty());
  if (!arrays) return;
  const auto again = parse_mat("f", encode_mat(*arrays, false), error);
  assert(again && again->size() == arrays->size());
  for (std::size_t i = 0; i < arrays->size(); ++i) {
    const MatArray& array = (*arrays)[i];
    assert(array.name == (*again)[i].name && array.bytes == (*again)[i].bytes);
    if (array.size() > 0) array.at(array.size() - 1);
  }
}

// Where the whole image can be decoded, a part of it can.
void check_part(std::string_view bytes, DecodeOptions options, const Image& whole) {
  options.window = {bytes.size() % 7, bytes.size() % 11, bytes.size() % 13 + 1,
                    bytes.size() % 17 + 1};
  std::string error;
  DecodedPart part;
  const bool good = decode_part(bytes, options, part, error);
  assert(good && part.whole.rows == whole.rows && part.whole.columns == whole.columns);
  assert(part.top + part.image.rows <= whole.rows);
  assert(part.left + part.image.columns <= whole.columns);
  assert(part.image.pixels.size() == part.image.rows * part.image.columns * 3);
}

// Reduced or not. What is decoded has the size that was announced, or an eighth of it and so on.
void check_image(std::string_view bytes, std::size_t least) {
  std::string error;
  const auto size = image_size(bytes, error);
  // A small file may announce a large picture, which takes its time and proves nothing.
  if (size && size->rows * size->columns > (1U << 20)) return;
  const DecodeOptions options{DctMethod::fast, least, least, {}};
  const auto image = decode_image(bytes, options, error);
  assert(image || !error.empty());
  if (!image) return;
  assert(size && image->pixels.size() == image->rows * image->columns * 3);
  assert(least > 0 || (image->rows == size->rows && image->columns == size->columns));
  check_part(bytes, options, *image);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 8) {
    case 0:
      check_example(bytes);
      break;
    case 1:
      check_table(bytes);
      break;
    case 2:
      check_record_header(bytes);
      break;
    case 3:
      check_arrays(bytes);
      break;
    case 4:
      check_sentences(bytes);
      break;
    case 5:
      check_word_vectors(bytes);
      break;
    default:
      check_image(bytes, data[0] % 8 == 6 ? 0 : 5);
  }
  return 0;
}
