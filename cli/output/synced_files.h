// The folder of --sync-dir: what ranks of other hosts write below theirs, as their agents bring it.
// A file is there whole or not at all: it grows under a name of hvdrun's own and gets its own when
// all of it has come. Nothing that an agent says is trusted: paths stay below the folder, and no
// link is followed.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include "common/base/unique_fd.h"
#include "common/wire/frame.h"
#include "common/wire/messages.h"

namespace hvdrun {

class SyncedFiles {
 public:
  using Say = std::function<void(const std::string& line)>;
  using NameOf = std::function<std::string(std::uint32_t host)>;

  // Makes the folder. Throws UsageError, which begins with `where`.
  SyncedFiles(std::string folder, const std::string& where, const std::string& job_id);
  ~SyncedFiles();
  SyncedFiles(const SyncedFiles&) = delete;
  SyncedFiles& operator=(const SyncedFiles&) = delete;

  // For lines to the user, and the hosts' names in them. Before the first frame.
  void set_job(NameOf name_of, Say say);
  // Frames for the agent of `host`, as an answer; none: it says what does not belong here.
  std::optional<std::string> take(std::uint32_t host, const Frame& frame);
  // The connection of the host has ended.
  void forget(std::uint32_t host);

 private:
  struct Host {
    std::string folder;             // there
    std::optional<FileBegin> file;  // under way
    UniqueFd part;
    std::uint64_t size = 0;   // bytes of it that have come
    std::error_code trouble;  // with it; the rest of it is dropped
  };

  // The one that was brought last under a name.
  struct Version {
    std::uint32_t host = 0;
    std::uint64_t size = 0;
    std::uint64_t time_ns = 0;
  };

  std::error_code open_root();
  void begin(std::uint32_t host, Host& of, FileBegin message);
  std::error_code open_part(std::uint32_t host, Host& of);
  void append(Host& of, std::string_view bytes);
  bool keep(std::uint32_t host, Host& of);
  std::error_code put_in_place(std::uint32_t host, const FileBegin& file);
  // True: there is a later one under this name, which stays, or this one, from before.
  bool is_superseded(std::uint32_t host, const FileBegin& file, int parent,
                     const std::string& name);
  void end(std::uint32_t host, const Host& of, std::uint32_t left);
  std::string part_name(std::uint32_t host) const;

  std::string folder_;
  UniqueFd root_;
  NameOf name_of_;
  Say say_;
  std::map<std::uint32_t, Host> hosts_;
  std::string part_prefix_;
  std::uint64_t began_ns_;                   // since 1970
  std::map<std::string, Version> versions_;  // by path
  std::uint32_t troubles_ = 0;
  std::uint32_t clashes_ = 0;
};

}  // namespace hvdrun
