// The files below a folder that are ready to be brought elsewhere. Whoever writes them says nothing
// of it: so the folder is looked at again and again, and the kernel is asked whether somebody has a
// file open for writing. Only plain files count, under plain names (common/wire/file_path.h). One
// thread; times are the caller's.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <dirent.h>

#include "common/base/limits.h"
#include "common/base/unique_fd.h"

namespace hvdrun {

// Equal as long as the file is the same one and has not changed.
struct FileStamp {
  std::uint64_t inode = 0;
  std::uint64_t size = 0;        // bytes
  std::uint64_t changed_ns = 0;  // its bytes
  std::uint64_t status_ns = 0;   // its bytes, name or mode; nobody can set it
  bool operator==(const FileStamp&) const = default;
};
FileStamp stamp_of(int file);

struct ReadyFile {
  std::string path;  // relative to the folder
  UniqueFd file;
  FileStamp stamp;
  std::uint32_t mode = 0;  // permission bits
  bool is_open = false;    // for writing, by somebody else
};

class FolderScan {
 public:
  using Clock = std::chrono::steady_clock;
  // A file that somebody has open is as good as finished when nothing was written to it for so
  // long.
  static constexpr std::chrono::seconds kQuiet{5};

  explicit FolderScan(std::string folder, std::size_t most = limits::kMaxSyncedFiles)
      : folder_(std::move(folder)), most_(most) {}

  // A look at everything: begin it, then call look_on() until it returns true, which each time
  // works until `until`. Ready is what is as it was at the look before and has not been brought.
  // With `last` it need not have been there before, nor be closed; what was brought while it was
  // open is ready once more, as writes to mapped memory change no time.
  void begin_look(Clock::time_point now, bool last = false);
  bool look_on(Clock::time_point until);
  // One that is ready, by name, until there is none. Of those that cannot be opened it says why.
  std::optional<ReadyFile> next(Clock::time_point now);
  // The end of one that next() has given: it is there, or cannot be kept there as it is.
  void brought(const ReadyFile& file);
  void failed(const ReadyFile& file);
  // Files that have not been brought as they were at the last look, and what of the folder has not
  // been looked at. Links, pipes and the like have nothing in them that could be.
  std::uint32_t left() const;
  // Removes the folder with all that has been brought. What has come or changed since stays.
  void remove();
  // New since the last call, lines for the user: what is no plain file, say. One of each kind.
  std::vector<std::string> take_remarks();

 private:
  struct Known {
    FileStamp stamp;
    Clock::time_point since;  // it is like this
    std::optional<FileStamp> handled;
    bool has_failed = false;
    bool was_open = false;  // when it was brought
    bool is_there = false;
  };
  struct CloseFolder {
    void operator()(DIR* folder) const { ::closedir(folder); }
  };
  // One that is being read.
  struct Reading {
    std::unique_ptr<DIR, CloseFolder> entries;
    std::string prefix;  // of the names in it
  };

  void enter(int parent, const std::string& name, const std::string& prefix);
  void see(const Reading& in, const std::string& name);
  void see_file(const std::string& path, const FileStamp& stamp);
  bool remove_below(int folder, const std::string& prefix);
  void remark(const std::string& kind, const std::string& path);
  // Something with bytes in it.
  void skip(const std::string& kind, const std::string& path);

  std::string folder_;
  std::size_t most_;  // files and folders that are looked at
  // The look under way, or the last one, has these.
  Clock::time_point now_;
  bool last_ = false;
  std::size_t seen_ = 0;
  std::uint32_t skipped_ = 0;
  std::vector<Reading> reading_;  // the innermost last
  std::map<std::string, Known> files_;
  std::deque<std::string> ready_;
  std::set<std::string> told_;
  std::vector<std::string> remarks_;
};

}  // namespace hvdrun
