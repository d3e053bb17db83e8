// Where encoded images with a class each come from: folders of files, or shards of records.
//
// C++17: the labs include this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "worker/labs/data/files/passed_over.h"
#include "worker/labs/data/files/records.h"

namespace hvdrun {

struct EncodedImage {
  std::string bytes;
  std::int64_t label = 0;
  std::string place;  // the file, and where in it: for messages
};

class ImageSource {
 public:
  ImageSource() = default;
  ImageSource(const ImageSource&) = delete;
  ImageSource& operator=(const ImageSource&) = delete;
  virtual ~ImageSource() = default;

  virtual std::size_t size() const = 0;
  virtual std::int64_t classes() const = 0;
  // A line about what was passed over; empty: nothing.
  virtual std::string note() const { return {}; }
  // The checksum of names, order and sizes; reading all content would take too long.
  virtual std::uint32_t checksum() const = 0;
  // Image `index` below size(). None, and `error` names file and place, when it cannot be read. Any
  // thread.
  virtual std::optional<EncodedImage> read(std::size_t index, std::string& error) const = 0;
  // True when image `index` seems to be there and whole, as far as that costs little
  // (image_check.h). Any thread.
  virtual bool looks_whole(std::size_t index) const;
};

inline constexpr std::size_t kMaxImageFile = std::size_t{64} << 20;  // bytes
inline constexpr std::size_t kMaxListedFiles = 50'000'000;

// DIR/CLASS/FILE, with .jpg, .jpeg or .png: the classes are the subfolders' names in alphabetical
// order, their files likewise. Others are passed over and counted, hidden ones not even counted.
struct ClassFolders {
  struct File {
    std::string path;
    std::uint64_t bytes = 0;
    std::int64_t label = 0;
  };
  std::vector<std::string> classes;  // of the folders that have images
  std::vector<File> files;
  std::vector<std::string> empty;  // folders without an image
  PassedOver passed_over;
};
// None, and `error` names the folder, when it cannot be read or has no images.
std::optional<ClassFolders> list_class_folders(const std::string& directory, std::string& error);
// `files` have the labels of `classes` classes.
std::unique_ptr<ImageSource> folder_source(std::vector<ClassFolders::File> files,
                                           std::int64_t classes);

// TFRecord shards NAME-00000-of-00008 and so on in `directory`, of Examples with the features
// "image/encoded" and "image/class/label". Classes begin at 1, as those of ImageNet do. Null when
// there is no shard, one is missing or one's framing is wrong; `error` names file or folder.
std::unique_ptr<ImageSource> shard_source(const std::string& directory, const std::string& name,
                                          std::int64_t classes, std::string& error);
// The name of a shard: "train-00001-of-00008".
std::string shard_name(const std::string& name, std::size_t shard, std::size_t shards);

}  // namespace hvdrun
