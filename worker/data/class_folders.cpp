#include <algorithm>
#include <cctype>
#include <filesystem>
#include <system_error>
#include <utility>
#include <zlib.h>

#include "worker/data/image_source.h"
#include "worker/data/whole_file.h"

namespace hvdrun {
namespace {

namespace fs = std::filesystem;

bool is_hidden(const std::string& name) { return !name.empty() && name[0] == '.'; }

bool is_image_name(const std::string& name) {
  const auto dot = name.rfind('.');
  if (dot == std::string::npos) return false;
  std::string extension = name.substr(dot);
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return extension == ".jpg" || extension == ".jpeg" || extension == ".png";
}

// Names of what is in a folder and not hidden, in alphabetical order.
std::optional<std::vector<fs::directory_entry>> entries(const std::string& directory,
                                                        std::string& error) {
  std::error_code code;
  std::vector<fs::directory_entry> found;
  fs::directory_iterator next(directory, code);
  for (const fs::directory_iterator end; !code && next != end; next.increment(code)) {
    if (is_hidden(next->path().filename().string())) continue;
    found.push_back(*next);
    if (found.size() <= kMaxListedFiles) continue;
    error = directory + ": more than " + std::to_string(kMaxListedFiles) + " files";
    return std::nullopt;
  }
  if (code) {
    error = directory + ": " + code.message();
    return std::nullopt;
  }
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.path().filename() < b.path().filename(); });
  return found;
}

class FolderSource final : public ImageSource {
 public:
  FolderSource(std::vector<ClassFolders::File> files, std::int64_t classes)
      : files_(std::move(files)), classes_(classes) {}

  std::size_t size() const override { return files_.size(); }
  std::int64_t classes() const override { return classes_; }
  std::uint32_t checksum() const override {
    unsigned long sum = 0;  // NOLINT(google-runtime-int): zlib's
    for (const ClassFolders::File& file : files_) {
      // Hosts may have them in different places.
      const fs::path path(file.path);
      const std::string text = (path.parent_path().filename() / path.filename()).string() + " " +
                               std::to_string(file.bytes) + "\n";
      sum = crc32_z(sum, reinterpret_cast<const Bytef*>(text.data()), text.size());
    }
    return static_cast<std::uint32_t>(sum);
  }
  std::optional<EncodedImage> read(std::size_t index, std::string& error) const override {
    const ClassFolders::File& file = files_.at(index);
    std::optional<std::string> bytes = read_whole_file(file.path, kMaxImageFile, error);
    if (!bytes) return std::nullopt;
    return EncodedImage{std::move(*bytes), file.label, file.path};
  }

 private:
  std::vector<ClassFolders::File> files_;
  std::int64_t classes_;
};

}  // namespace

std::optional<ClassFolders> list_class_folders(const std::string& directory, std::string& error) {
  const auto folders = entries(directory, error);
  if (!folders) return std::nullopt;
  ClassFolders found;
  for (const fs::directory_entry& folder : *folders) {
    std::error_code code;
    if (!folder.is_directory(code)) continue;
    const auto files = entries(folder.path().string(), error);
    if (!files) return std::nullopt;
    const std::size_t before = found.files.size();
    for (const fs::directory_entry& file : *files) {
      if (!is_image_name(file.path().filename().string()) || !file.is_regular_file(code)) continue;
      const std::uintmax_t bytes = file.file_size(code);
      found.files.push_back({file.path().string(), code ? 0 : bytes,
                             static_cast<std::int64_t>(found.classes.size())});
    }
    if (found.files.size() > before)
      found.classes.push_back(folder.path().filename().string());
    else
      found.empty.push_back(folder.path().filename().string());
  }
  if (found.files.empty()) {
    error = directory + ": no images: a folder for each class, with .jpg or .png files in it";
    return std::nullopt;
  }
  return found;
}

std::unique_ptr<ImageSource> folder_source(std::vector<ClassFolders::File> files,
                                           std::int64_t classes) {
  return std::make_unique<FolderSource>(std::move(files), classes);
}

}  // namespace hvdrun
