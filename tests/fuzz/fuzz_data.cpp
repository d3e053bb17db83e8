// Data files: an Example, a table, the header of a record, arrays of a MAT-file, a JPEG, a PNG.
// What is read stays within the input, and what a reader accepts it accepts again as its writer
// writes it.
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "worker/data/csv.h"
#include "worker/data/example.h"
#include "worker/data/image.h"
#include "worker/data/mat_file.h"
#include "worker/data/records.h"

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

// Reduced or not. What is decoded has the size that was announced, or an eighth of it and so on.
void check_image(std::string_view bytes, std::size_t least) {
  std::string error;
  const auto size = image_size(bytes, error);
  // A small file may announce a large picture, which takes its time and proves nothing.
  if (size && size->rows * size->columns > (1U << 20)) return;
  const auto image = decode_image(bytes, {DctMethod::fast, least, least}, error);
  assert(image || !error.empty());
  if (!image) return;
  assert(size && image->pixels.size() == image->rows * image->columns * 3);
  assert(least > 0 || (image->rows == size->rows && image->columns == size->columns));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 6) {
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
    default:
      check_image(bytes, data[0] % 6 == 4 ? 0 : 5);
  }
  return 0;
}
