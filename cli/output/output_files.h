// The ranks' output in files, as the programs wrote it: FOLDER/rank.N/stdout and stderr, N padded
// with zeros to the width of the last rank. A slot that an elastic job starts again writes to
// rank.N.1, then rank.N.2. What an earlier run left there is moved to FOLDER/run.1, run.2 and so
// on; nothing is overwritten. A job that starts again as a whole appends.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>

#include "common/base/unique_fd.h"
#include "common/wire/messages.h"

namespace hvdrun {

class OutputFiles {
 public:
  enum class Begin {
    anew,     // what an earlier run left is moved away
    goes_on,  // the job has started again: its files get more
  };
  // Makes all folders and files, so that what is not possible is known before anything starts.
  // Throws UsageError.
  OutputFiles(std::string folder, std::uint32_t np, Begin begin = Begin::anew);

  // Where the files of an earlier run are now; empty when there were none.
  const std::string& moved_to() const { return moved_to_; }

  // Appends to the file of its rank, stream and start. After a fault the file gets nothing more,
  // for bytes in the middle must not be missing; the fault comes back once for every file.
  std::error_code write(const Output& output);
  std::string path(std::uint32_t rank, OutputStream stream, std::uint32_t start = 0) const;

 private:
  using Key = std::tuple<std::uint32_t, std::uint32_t, OutputStream>;  // rank, start, stream
  struct File {
    UniqueFd fd;  // none: closed for the time being
    bool failed = false;
    std::list<Key>::iterator use;  // in used_, while open
  };

  std::string rank_folder(std::uint32_t rank, std::uint32_t start) const;
  void move_earlier_run();
  // A new one is made, with its folder.
  std::error_code open(const Key& key);

  std::string folder_;
  std::size_t width_;
  Begin begin_;
  std::string moved_to_;
  UniqueFd lock_;  // held for as long as this run writes here
  std::map<Key, File> files_;
  std::list<Key> used_;  // the open ones, the latest first
};

}  // namespace hvdrun
