#include "common/process/library_search.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <fcntl.h>
#include <set>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

#include "common/base/unique_fd.h"

namespace hvdrun {
namespace {

constexpr std::size_t kMaxObjects = 1024;  // looked into; what lies deeper counts as found

bool exists(const std::string& path) { return ::access(path.c_str(), F_OK) == 0; }

// /etc/ld.so.cache in the format that glibc has written since 2.2.
class LoaderCache {
 public:
  LoaderCache() {
    const UniqueFd fd(::open("/etc/ld.so.cache", O_RDONLY | O_CLOEXEC));
    struct stat status {};
    if (!fd || ::fstat(fd.get(), &status) != 0 || status.st_size < 0) return;
    bytes_.resize(static_cast<std::size_t>(status.st_size));
    if (::pread(fd.get(), bytes_.data(), bytes_.size(), 0) != status.st_size) return;
    constexpr std::string_view kMagic = "glibc-ld.so.cache1.1";
    Header header{};
    if (!read(0, header) || std::memcmp(header.magic, kMagic.data(), kMagic.size()) != 0) return;
    count_ = header.count;
    usable_ = count_ <= (bytes_.size() - sizeof(Header)) / sizeof(Entry);
  }

  // Without the cache nothing can be called missing.
  bool usable() const { return usable_; }

  std::vector<std::string> find(const std::string& name) const {
    std::vector<std::string> paths;
    for (std::size_t i = 0; usable_ && i < count_; ++i) {
      Entry entry{};
      if (read(sizeof(Header) + i * sizeof(Entry), entry) && is(entry.key, name))
        paths.emplace_back(text(entry.value));
    }
    return paths;
  }

 private:
  struct Header {
    char magic[20];
    std::uint32_t count;
    std::uint32_t rest[6];
  };
  struct Entry {
    std::int32_t flags;
    std::uint32_t key;  // offsets of strings in the file
    std::uint32_t value;
    std::uint32_t os_version;
    std::uint64_t hwcap;
  };
  static_assert(sizeof(Header) == 48 && sizeof(Entry) == 24);

  template <class T>
  bool read(std::size_t at, T& value) const {
    if (at + sizeof value > bytes_.size()) return false;
    std::memcpy(&value, bytes_.data() + at, sizeof value);
    return true;
  }
  bool is(std::size_t at, const std::string& name) const {
    return at < bytes_.size() && name.size() < bytes_.size() - at &&
           std::memcmp(bytes_.data() + at, name.c_str(), name.size() + 1) == 0;
  }
  std::string_view text(std::size_t at) const {
    if (at >= bytes_.size()) return {};
    return {bytes_.data() + at, ::strnlen(bytes_.data() + at, bytes_.size() - at)};
  }

  std::string bytes_;
  std::size_t count_ = 0;
  bool usable_ = false;
};

class Search {
 public:
  // `thorough`: look into the system's libraries too.
  Search(const Environment& env, bool thorough) : thorough_(thorough) {
    if (const char* const list = find_variable(env, "LD_LIBRARY_PATH"); list != nullptr)
      library_path_ = split(list, "", ":;");
    // A preloaded library may stand for a library that is not there.
    doubt_ = find_variable(env, "LD_PRELOAD") != nullptr ||
             find_variable(env, "LD_AUDIT") != nullptr || exists("/etc/ld.so.preload") ||
             !cache_.usable();
  }

  std::optional<MissingLibrary> run(const std::string& path, const ElfFile& program) {
    todo_.push_back({path, program, {}});
    while (!todo_.empty() && !doubt_ && known_.size() < kMaxObjects) {
      Object object = std::move(todo_.front());
      todo_.pop_front();
      if (auto missing = resolve(object)) return doubt_ ? std::nullopt : std::move(missing);
    }
    return std::nullopt;
  }

 private:
  struct Object {
    std::string path;
    ElfFile file;
    std::vector<std::string> rpaths;  // of those that loaded it
  };

  // Breadth first, as the loader does: a library found once serves all that need its name.
  std::optional<MissingLibrary> resolve(const Object& object) {
    const std::string origin = object.path.substr(0, object.path.rfind('/'));
    std::vector<std::string> rpaths;
    if (object.file.runpath.empty()) rpaths = split(object.file.rpath, origin, ":");
    rpaths.insert(rpaths.end(), object.rpaths.begin(), object.rpaths.end());
    std::vector<std::string> folders;
    // With a RUNPATH of its own the RPATHs do not count.
    if (object.file.runpath.empty()) folders = rpaths;
    folders.insert(folders.end(), library_path_.begin(), library_path_.end());
    for (std::string& folder : split(object.file.runpath, origin, ":"))
      folders.push_back(std::move(folder));
    for (const std::string& name : object.file.needed) {
      if (name.find('/') != std::string::npos || name.find('$') != std::string::npos) {
        doubt_ = true;
        return std::nullopt;
      }
      if (!known_.insert(name).second) continue;
      bool found = false;
      if (!enter_first(name, folders, rpaths, found) && !found)
        return MissingLibrary{name, object.path};
    }
    return std::nullopt;
  }

  // The first file of this name that the loader would take is looked into later.
  bool enter_first(const std::string& name, const std::vector<std::string>& folders,
                   const std::vector<std::string>& rpaths, bool& found) {
    std::vector<std::string> candidates;
    candidates.reserve(folders.size());
    const std::string last = "/" + name;
    for (const std::string& folder : folders) candidates.push_back(folder + last);
    const std::size_t ours = candidates.size();
    for (std::string& path : cache_.find(name)) candidates.push_back(std::move(path));
    for (const char* folder : {"/lib", "/usr/lib", "/lib64", "/usr/lib64"})
      candidates.push_back(folder + last);
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      const std::string& candidate = candidates[i];
      if (!exists(candidate)) continue;
      found = true;
      if (i >= ours && !thorough_) return true;
      if (auto file = read_elf_file(candidate)) {
        if (!file->soname.empty()) known_.insert(file->soname);
        todo_.push_back({candidate, std::move(*file), rpaths});
        return true;
      }
    }
    // Variants for newer processors lie in folders below.
    if (!found && std::any_of(folders.begin(), folders.end(), [](const std::string& folder) {
          return exists(folder + "/glibc-hwcaps") || exists(folder + "/tls");
        }))
      found = true;
    return false;
  }

  std::vector<std::string> split(std::string_view list, const std::string& origin,
                                 const char* separators) {
    std::vector<std::string> folders;
    while (!list.empty()) {
      const auto end = std::min(list.find_first_of(separators), list.size());
      std::string folder(list.substr(0, end));
      list.remove_prefix(std::min(end + 1, list.size()));
      for (const std::string_view word : {"${ORIGIN}", "$ORIGIN"})
        for (auto at = folder.find(word); at != std::string::npos;
             at = folder.find(word, at + origin.size()))
          folder.replace(at, word.size(), origin);
      // $LIB, $PLATFORM, or relative to a folder that is not ours to know.
      if (folder.find('$') != std::string::npos || !folder.starts_with('/')) doubt_ = true;
      folders.push_back(std::move(folder));
    }
    return folders;
  }

  bool thorough_;
  LoaderCache cache_;
  std::vector<std::string> library_path_;
  std::deque<Object> todo_;
  std::set<std::string> known_;
  bool doubt_ = false;
};

}  // namespace

std::optional<MissingLibrary> find_missing_library(const std::string& path, const ElfFile& program,
                                                   const Environment& env) {
  // Another libc looks elsewhere.
  if (program.interpreter.find("/ld-linux") == std::string::npos) return std::nullopt;
  // A package manager's programs have what they need: looking into all of that costs a program with
  // LibTorch 10 ms. But one of those may bring the very library that seems to be missing.
  if (!Search(env, false).run(path, program)) return std::nullopt;
  return Search(env, true).run(path, program);
}

}  // namespace hvdrun
