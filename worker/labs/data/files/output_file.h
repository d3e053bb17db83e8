// A file of output that comes piece by piece: a log, a line for each epoch. Errors are one line
// that begins with the name.
#pragma once

#include <string>
#include <string_view>

#include "common/base/output_place.h"
#include "common/base/unique_fd.h"

namespace hvdrun {

class OutputFile {
 public:
  OutputFile() = default;
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();  // what waits is written, whatever comes of it

  // False, with `error`. Whatever stands there: common/base/output_place.h.
  bool open(const std::string& name, Begin begin, std::string& error);
  bool is_open() const { return static_cast<bool>(file_); }

  // In the file when it returns, with all that was added before.
  bool write(std::string_view bytes, std::string& error);
  // In it later: when enough has come, or with the next write(). What goes wrong then that says.
  void add(std::string_view bytes);
  bool close(std::string& error);

 private:
  void flush();

  std::string name_;
  UniqueFd file_;
  std::string waiting_;
  int fault_ = 0;  // the first; nothing is written after it
};

}  // namespace hvdrun
