#include <algorithm>
#include <cctype>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>
#include <zlib.h>

#include "common/base/unique_fd.h"
#include "worker/labs/data/files/whole_file.h"
#include "worker/labs/data/images/image_check.h"
#include "worker/labs/data/images/image_source.h"

namespace hvdrun {
namespace {

namespace fs = std::filesystem;

bool is_hidden(const std::string& name) { return !name.empty() && name[0] == '.'; }

// ".jpg" of "A.JPG"; empty where there is none, or nothing that could be one.
std::string ending_of(const std::string& name) {
  constexpr std::size_t kMaxEnding = 10;
  const auto dot = name.rfind('.');
  if (dot == std::string::npos || dot + 1 == name.size() || name.size() - dot > kMaxEnding)
    return {};
  std::string ending = name.substr(dot);
  for (auto c = ending.begin() + 1; c != ending.end(); ++c) {
    if (std::isalnum(static_cast<unsigned char>(*c)) == 0) return {};
    *c = static_cast<char>(std::tolower(static_cast<unsigned char>(*c)));
  }
  return ending;
}

bool is_image_ending(const std::string& ending) {
  return ending == ".jpg" || ending == ".jpeg" || ending == ".png";
}

bool is_dead_link(const fs::directory_entry& entry) {
  std::error_code code;
  return entry.is_symlink(code) && !entry.exists(code);
}

// Counts an entry of a class's folder that is no image to us.
void pass_over(const fs::directory_entry& entry, PassedOver& passed_over) {
  std::error_code code;
  const std::string ending = ending_of(entry.path().filename().string());
  if (is_dead_link(entry))
    passed_over.add("dead link", "dead links");
  else if (entry.is_directory(code))
    passed_over.add("folder below a class", "folders below a class");
  else if (!entry.is_regular_file(code))
    passed_over.add("special file", "special files");
  else if (ending.empty())
    passed_over.add("file of no kind", "files of no kind");
  else
    passed_over.add(ending, ending);
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
  bool looks_whole(std::size_t index) const override {
    const std::string& path = files_.at(index).path;
    const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat info {};
    if (!file || ::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) return false;
    return hvdrun::looks_whole(
        static_cast<std::uint64_t>(info.st_size), [&](std::uint64_t at, std::size_t count) {
          std::string bytes(count, '\0');
          const ssize_t got = ::pread(file.get(), bytes.data(), count, static_cast<off_t>(at));
          bytes.resize(static_cast<std::size_t>(std::max<ssize_t>(0, got)));
          return bytes;
        });
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
    if (!folder.is_directory(code)) {
      if (is_dead_link(folder))
        found.passed_over.add("dead link", "dead links");
      else
        found.passed_over.add("file beside the class folders", "files beside the class folders");
      continue;
    }
    const auto files = entries(folder.path().string(), error);
    if (!files) return std::nullopt;
    const std::size_t before = found.files.size();
    for (const fs::directory_entry& file : *files) {
      if (!is_image_ending(ending_of(file.path().filename().string())) ||
          !file.is_regular_file(code)) {
        pass_over(file, found.passed_over);
        continue;
      }
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
    const std::string others = found.passed_over.text();
    if (!others.empty()) error += "; passed over: " + others;
    return std::nullopt;
  }
  return found;
}

std::unique_ptr<ImageSource> folder_source(std::vector<ClassFolders::File> files,
                                           std::int64_t classes) {
  return std::make_unique<FolderSource>(std::move(files), classes);
}

}  // namespace hvdrun
