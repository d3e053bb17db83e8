#include "worker/labs/data/images/svhn_files.h"

#include <unistd.h>
#include <utility>

#include "worker/labs/data/files/mat_file.h"
#include "worker/labs/data/files/whole_file.h"

namespace hvdrun {
namespace {

constexpr unsigned kZero = 10;  // the label of the digit 0

const MatArray* find_array(const std::vector<MatArray>& arrays, const char* name) {
  for (const MatArray& array : arrays)
    if (array.name == name) return &array;
  return nullptr;
}

std::string shape_of(const MatArray& array) {
  std::string text;
  for (const std::uint32_t size : array.dimensions)
    text.append(text.empty() ? "" : "x").append(std::to_string(size));
  return text;
}

// Between the file's order (row, column, colour, image; the first one fastest) and ours.
template <typename Copy>
void for_each_pixel(std::size_t images, const Copy& copy) {
  std::size_t ours = 0;
  for (std::size_t n = 0; n < images; ++n)
    for (std::size_t colour = 0; colour < kSvhnColours; ++colour)
      for (std::size_t row = 0; row < kSvhnSide; ++row)
        for (std::size_t column = 0; column < kSvhnSide; ++column)
          copy(ours++, row + kSvhnSide * (column + kSvhnSide * (colour + kSvhnColours * n)));
}

}  // namespace

std::string svhn_name(Split split) {
  return split == Split::train ? "train_32x32.mat" : "test_32x32.mat";
}

std::optional<ImageSet> read_svhn(const std::string& directory, Split split, std::string& error) {
  const std::string path = directory + "/" + svhn_name(split);
  if (::access(path.c_str(), F_OK) != 0) {
    error = path + ": not found; make a set with scripts/make-dataset svhn";
    return std::nullopt;
  }
  const auto bytes = read_whole_file(path, kMaxMatBytes, error);
  if (!bytes) return std::nullopt;
  const auto arrays = parse_mat(path, *bytes, error);
  if (!arrays) return std::nullopt;
  const MatArray* const x = find_array(*arrays, "X");
  const MatArray* const y = find_array(*arrays, "y");
  if (x == nullptr || y == nullptr) {
    error = path + ": no array " + (x == nullptr ? "X" : "y") + " of numbers";
    return std::nullopt;
  }
  // MATLAB leaves a last dimension of 1 away.
  const auto size = [&](std::size_t i) { return i < x->dimensions.size() ? x->dimensions[i] : 1; };
  if (size(0) != kSvhnSide || size(1) != kSvhnSide || size(2) != kSvhnColours ||
      x->dimensions.size() > 4 || x->type != MatType::uint8) {
    error = path + ": X is " + shape_of(*x) + ", 32x32x3xN bytes expected";
    return std::nullopt;
  }
  const std::size_t images = size(3);
  if (y->size() != images) {
    error = path + ": " + std::to_string(y->size()) + " labels, but " + std::to_string(images) +
            " images";
    return std::nullopt;
  }
  ImageSet set{kSvhnColours, kSvhnSide, kSvhnSide, {}, {}};
  for (std::size_t i = 0; i < images; ++i) {
    const double label = y->at(i);
    if (!(label >= 1 && label <= kZero) || label != static_cast<unsigned>(label)) {
      error = path + ": the label of image " + std::to_string(i) + " is no number from 1 to 10";
      return std::nullopt;
    }
    set.labels.push_back(static_cast<std::uint8_t>(static_cast<unsigned>(label) % kZero));
  }
  set.pixels.resize(images * set.image_size());
  for_each_pixel(images, [&](std::size_t ours, std::size_t theirs) {
    set.pixels[ours] = static_cast<std::uint8_t>(x->bytes[theirs]);
  });
  return set;
}

bool write_svhn(const std::string& directory, Split split, const ImageSet& images,
                std::string& error) {
  const auto count = static_cast<std::uint32_t>(images.size());
  MatArray x{"X", {kSvhnSide, kSvhnSide, kSvhnColours, count}, MatType::uint8, {}};
  x.bytes.resize(images.pixels.size());
  for_each_pixel(images.size(), [&](std::size_t ours, std::size_t theirs) {
    x.bytes[theirs] = static_cast<char>(images.pixels[ours]);
  });
  MatArray y{"y", {count, 1}, MatType::uint8, {}};
  for (const std::uint8_t label : images.labels)
    y.bytes += static_cast<char>(label == 0 ? kZero : label);
  return write_whole_file(directory + "/" + svhn_name(split), encode_mat({x, y}, true), error);
}

}  // namespace hvdrun
