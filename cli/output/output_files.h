// The ranks' output in files, as the programs wrote it: FOLDER/rank.N/stdout and stderr, N padded
// with zeros to the width of the last rank. What an earlier run left there is moved to
// FOLDER/run.1, run.2 and so on; nothing is overwritten.
#pragma once

#include <cstdint>
#include <list>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "common/base/unique_fd.h"
#include "common/wire/messages.h"

namespace hvdrun {

class OutputFiles {
 public:
  // Makes all folders and files, so that what is not possible is known before anything starts.
  // Throws UsageError.
  OutputFiles(std::string folder, std::uint32_t np);

  // Where the files of an earlier run are now; empty when there were none.
  const std::string& moved_to() const { return moved_to_; }

  // Appends to the rank's file. After a fault the file gets nothing more, for bytes in the middle
  // must not be missing; the fault comes back once for every file.
  std::error_code write(std::uint32_t rank, OutputStream stream, std::string_view bytes);
  std::string path(std::uint32_t rank, OutputStream stream) const;

 private:
  struct File {
    UniqueFd fd;  // none: closed for the time being
    bool failed = false;
    std::list<std::size_t>::iterator use;  // in used_, while open
  };

  std::string rank_folder(std::uint32_t rank) const;
  void move_earlier_run();
  std::error_code open(std::size_t index, int flags);

  std::string folder_;
  std::size_t width_;
  std::string moved_to_;
  UniqueFd lock_;  // held for as long as this run writes here
  std::vector<File> files_;
  std::list<std::size_t> used_;  // indices of the open ones, the latest first
};

}  // namespace hvdrun
