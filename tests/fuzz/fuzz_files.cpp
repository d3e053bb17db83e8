// Sets of data files: images and labels of MNIST's format, packed or not, a pair of them in a
// folder, house numbers, files of records. Shards of records have right checksums and any content,
// folders and shards any name. What is read stays within the input, and agrees with itself.
#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "worker/labs/data/files/example.h"
#include "worker/labs/data/files/gzip.h"
#include "worker/labs/data/files/idx.h"
#include "worker/labs/data/files/mat_file.h"
#include "worker/labs/data/files/records.h"
#include "worker/labs/data/images/image_source.h"
#include "worker/labs/data/images/mnist_files.h"
#include "worker/labs/data/images/svhn_files.h"

namespace {

using namespace hvdrun;
namespace fs = std::filesystem;

// In TMPDIR, for as long as the program runs; empty at the beginning of each input.
class Folder {
 public:
  Folder() : path_((fs::temp_directory_path() / "hvd-fuzz-XXXXXX").string()) {
    if (::mkdtemp(path_.data()) == nullptr) std::abort();
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { fs::remove_all(path_); }

  const std::string& emptied() {
    for (const auto& entry : fs::directory_iterator(path_)) fs::remove_all(entry.path());
    return path_;
  }

 private:
  std::string path_;
};

void write(const std::string& path, std::string_view bytes) {
  std::ofstream(path, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

std::size_t take_byte(std::string_view& bytes) {
  if (bytes.empty()) return 0;
  const auto value = static_cast<unsigned char>(bytes[0]);
  bytes.remove_prefix(1);
  return value;
}

// As many bytes as the first one says.
std::string_view take_part(std::string_view& bytes) {
  const std::size_t length = std::min(take_byte(bytes), bytes.size());
  const std::string_view part = bytes.substr(0, length);
  bytes.remove_prefix(length);
  return part;
}

void check_idx(std::string_view bytes) {
  std::string error;
  const auto images = parse_idx_images("f", bytes, error);
  assert(images.has_value() == error.empty());
  if (images) {
    assert(images->pixels.size() == images->count * images->image_size());
    const auto again = parse_idx_images("f", encode_idx_images(*images), error);
    assert(again && again->pixels == images->pixels && again->rows == images->rows);
  }
  error.clear();
  const auto labels = parse_idx_labels("f", bytes, 9, error);
  assert(labels.has_value() == error.empty());
  if (!labels) return;
  assert(std::all_of(labels->begin(), labels->end(), [](int label) { return label <= 9; }));
  assert(parse_idx_labels("f", encode_idx_labels(*labels), 9, error) == labels);
}

void check_gzip(std::string_view bytes) {
  constexpr std::size_t kLimit = std::size_t{1} << 20;
  std::string output;
  std::string error;
  const GunzipResult result = gunzip(bytes, kLimit, output, error);
  assert((result == GunzipResult::failed) == !error.empty());
  assert(output.size() <= kLimit &&
         (result != GunzipResult::limit_reached || output.size() == kLimit));
  error.clear();
  assert(gunzip(gzip(bytes), bytes.size(), output, error) == GunzipResult::complete);
  assert(output == bytes);
}

// Headers that fit, mostly; then what the input says, perhaps packed.
void check_mnist(const std::string& folder, std::string_view bytes) {
  const std::size_t shape = take_byte(bytes);
  LabelledImages set;
  set.images.count = shape % 4;
  set.images.rows = shape / 4 % 8 == 0 ? 27 : kMnistSide;
  set.images.columns = kMnistSide;
  set.images.pixels.assign(set.images.count * set.images.image_size(), 7);
  const std::string_view labels = take_part(bytes);
  set.labels.assign(labels.begin(), labels.end());
  std::string images = encode_idx_images(set.images);
  const std::string_view over = take_part(bytes);  // over the beginning, and cut or longer
  std::copy_n(over.begin(), std::min(over.size(), images.size()), images.begin());
  if (const std::size_t cut = take_byte(bytes); cut > 0)
    images.resize(images.size() - cut % images.size());
  images += bytes;
  const bool packed = shape / 32 % 2 == 1;
  write(folder + "/" + mnist_images_name(Split::train) + (packed ? ".gz" : ""),
        packed ? gzip(images) : images);
  write(folder + "/" + mnist_labels_name(Split::train), encode_idx_labels(set.labels));
  std::string error;
  const auto read = read_mnist(folder, Split::train, error);
  assert(read.has_value() == error.empty());
  if (!read) return;
  assert(read->labels.size() == read->images.count && read->images.rows == kMnistSide);
  assert(read->images.pixels.size() == read->images.count * read->images.image_size());
}

// An array of the right shape mostly, with a number of images and one of labels.
MatArray svhn_array(const char* name, std::string_view& bytes) {
  constexpr MatType kTypes[] = {MatType::uint8, MatType::int8, MatType::real, MatType::int64};
  const std::size_t kind = take_byte(bytes);
  const bool is_x = name[0] == 'X';
  const auto count = static_cast<std::uint32_t>(take_byte(bytes) % 8);
  MatArray made{kind % 64 == 63 ? "z" : name, {count, 1}, kTypes[kind % 4], {}};
  if (is_x) made.dimensions = {kSvhnSide, kSvhnSide, kSvhnColours, count};
  if (kind % 16 == 15) {
    made.dimensions = {1, 1};
    for (const char size : take_part(bytes).substr(0, 4))
      made.dimensions.push_back(static_cast<unsigned char>(size) % 40U);
  }
  std::size_t elements = 1;
  for (const std::uint32_t size : made.dimensions)
    elements = std::min<std::size_t>(elements * size, 1U << 16);
  const std::string_view content = take_part(bytes);
  made.bytes.assign(elements * element_size(made.type), '\1');
  std::copy_n(content.begin(), std::min(content.size(), made.bytes.size()), made.bytes.begin());
  // As doubles, what a label may be and what not.
  if (!is_x && made.type == MatType::real)
    for (std::size_t i = 0; i < elements; ++i) {
      const double label = static_cast<double>(i < content.size() ? content[i] : 1);
      std::memcpy(made.bytes.data() + i * sizeof label, &label, sizeof label);
    }
  return made;
}

void check_svhn(const std::string& folder, std::string_view bytes) {
  const std::size_t kind = take_byte(bytes);
  std::vector<MatArray> arrays{svhn_array("X", bytes)};
  if (kind % 8 != 7) arrays.push_back(svhn_array("y", bytes));
  std::string file = encode_mat(arrays, kind / 8 % 2 == 1);
  if (!bytes.empty()) file[take_byte(bytes) * 7 % file.size()] ^= static_cast<char>(bytes.size());
  write(folder + "/" + svhn_name(Split::test), file);
  std::string error;
  const auto read = read_svhn(folder, Split::test, error);
  assert(read.has_value() == error.empty());
  if (!read) return;
  assert(read->pixels.size() == read->labels.size() * kSvhnSide * kSvhnSide * kSvhnColours);
  assert(
      std::all_of(read->labels.begin(), read->labels.end(), [](int label) { return label <= 9; }));
}

void check_records(const std::string& folder, std::string_view bytes) {
  write(folder + "/records", bytes);
  std::string error;
  const auto file = RecordFile::open(folder + "/records", error);
  assert(file.has_value() == error.empty());
  for (std::size_t i = 0; file && i < file->size(); ++i) {
    error.clear();
    const auto record = file->read(i, error);
    assert(record.has_value() == error.empty());
    assert(!record || record->size() <= bytes.size());
  }
}

// Records whose frames are right: the content is what is parsed.
void check_shards(const std::string& folder, std::string_view bytes) {
  const std::size_t count = take_byte(bytes) % 3 + 1;
  std::vector<std::string> shards(count);
  for (std::size_t i = 0; !bytes.empty() && i < 20; ++i) {
    const std::size_t kind = take_byte(bytes);
    const std::string_view part = take_part(bytes);
    Example example;
    Feature image;
    image.bytes.push_back(part);
    Feature label;
    label.integers.push_back(static_cast<std::int64_t>(kind / 4));
    example.add("image/encoded", image);
    example.add("image/class/label", label);
    std::string record = encode_record(kind % 4 == 0 ? std::string(part) : encode_example(example));
    if (kind % 4 == 1) record[kind / 4 % record.size()] ^= 1;
    shards[i % count] += record;
  }
  for (std::size_t i = 0; i < count; ++i)
    write(folder + "/" + shard_name("train", i, count), shards[i]);
  std::string error;
  const auto source = shard_source(folder, "train", 10, error);
  assert((source != nullptr) == error.empty());
  for (std::size_t i = 0; source && i < source->size(); ++i) {
    error.clear();
    const auto image = source->read(i, error);
    assert(image.has_value() == error.empty());
    assert(!image || (image->label >= 0 && image->label < 10));
    source->looks_whole(i);
  }
}

void check_names(const std::string& folder, std::string_view bytes) {
  const auto name = [&] {
    std::string text(take_part(bytes).substr(0, 60));
    std::replace_if(
        text.begin(), text.end(), [](char c) { return c == '/' || c == '\0'; }, '_');
    return text.empty() || text == "." || text == ".." ? std::string("a.png") : text;
  };
  for (int i = 0; !bytes.empty() && i < 6; ++i) {
    const std::size_t kind = take_byte(bytes);
    const std::string inner = folder + "/" + name();
    std::error_code code;
    if (kind % 3 != 0 && fs::create_directory(inner, code))
      write(inner + "/" + name(), "x");
    else
      write(inner, kind % 2 == 0 ? "" : encode_record("x"));
  }
  std::string error;
  const auto found = list_class_folders(folder, error);
  assert(found.has_value() == error.empty());
  if (found) {
    assert(!found->files.empty());
    for (const ClassFolders::File& file : found->files)
      assert(file.label >= 0 && static_cast<std::size_t>(file.label) < found->classes.size());
    const auto source =
        folder_source(found->files, static_cast<std::int64_t>(found->classes.size()));
    for (std::size_t i = 0; i < source->size(); ++i) {
      assert(source->read(i, error)->bytes == "x");
      assert(!source->looks_whole(i));
    }
  }
  error.clear();
  assert((shard_source(folder, "train", 10, error) != nullptr) == error.empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Folder folder;
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 8) {
    case 0:
    case 1:
      check_idx(bytes);
      break;
    case 2:
      check_gzip(bytes);
      break;
    case 3:
      check_mnist(folder.emptied(), bytes);
      break;
    case 4:
      check_svhn(folder.emptied(), bytes);
      break;
    case 5:
      check_records(folder.emptied(), bytes);
      break;
    case 6:
      check_shards(folder.emptied(), bytes);
      break;
    default:
      check_names(folder.emptied(), bytes);
  }
  return 0;
}
