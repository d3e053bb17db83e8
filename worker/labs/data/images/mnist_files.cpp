#include "worker/labs/data/images/mnist_files.h"

#include <unistd.h>

#include "worker/labs/data/files/gzip.h"
#include "worker/labs/data/files/whole_file.h"

namespace hvdrun {
namespace {

const char* prefix(Split split) { return split == Split::train ? "train" : "t10k"; }

// The path of the file that is there, in the order of the header's promise.
std::optional<std::string> find_part(const std::string& directory, const std::string& stem,
                                     const std::string& suffix, std::string& error) {
  const std::string base = directory + "/" + stem;
  for (const char* separator : {"-", "."}) {
    for (const char* extension : {"", ".gz"}) {
      std::string path = base;
      path.append(separator).append(suffix).append(extension);
      if (::access(path.c_str(), F_OK) == 0) return path;
    }
  }
  error = base + "-" + suffix + ": not found, nor with .gz; make a set with scripts/make-dataset";
  return std::nullopt;
}

}  // namespace

std::string mnist_images_name(Split split) {
  return std::string(prefix(split)) + "-images-idx3-ubyte";
}

std::string mnist_labels_name(Split split) {
  return std::string(prefix(split)) + "-labels-idx1-ubyte";
}

std::optional<LabelledImages> read_mnist(const std::string& directory, Split split,
                                         std::string& error) {
  const std::string stem = prefix(split);
  const auto images_path = find_part(directory, stem + "-images", "idx3-ubyte", error);
  if (!images_path) return std::nullopt;
  const auto labels_path = find_part(directory, stem + "-labels", "idx1-ubyte", error);
  if (!labels_path) return std::nullopt;

  auto bytes = read_whole_file(*images_path, kMaxIdxBytes, error);
  if (!bytes) return std::nullopt;
  auto images = parse_idx_images(*images_path, *bytes, error);
  if (!images) return std::nullopt;
  if (images->rows != kMnistSide || images->columns != kMnistSide) {
    error = *images_path + ": images of " + std::to_string(images->rows) + "x" +
            std::to_string(images->columns) + ", 28x28 expected";
    return std::nullopt;
  }
  bytes = read_whole_file(*labels_path, kMaxIdxBytes, error);
  if (!bytes) return std::nullopt;
  auto labels = parse_idx_labels(*labels_path, *bytes, kMnistMaxLabel, error);
  if (!labels) return std::nullopt;
  if (labels->size() != images->count) {
    error = *labels_path + ": " + std::to_string(labels->size()) + " labels, but " +
            std::to_string(images->count) + " images in " + *images_path;
    return std::nullopt;
  }
  return LabelledImages{std::move(*images), std::move(*labels)};
}

bool write_mnist(const std::string& directory, Split split, const LabelledImages& data,
                 bool compressed, std::string& error) {
  const auto write = [&](const std::string& name, const std::string& bytes) {
    const std::string path = directory + "/" + name + (compressed ? ".gz" : "");
    return write_whole_file(path, compressed ? gzip(bytes) : bytes, error);
  };
  return write(mnist_images_name(split), encode_idx_images(data.images)) &&
         write(mnist_labels_name(split), encode_idx_labels(data.labels));
}

}  // namespace hvdrun
