// A file with these contents, removed at the end.
#pragma once

#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>
#include <unistd.h>

namespace hvdrun {

class TextFile {
 public:
  explicit TextFile(const std::string& contents) {
    const int fd = ::mkstemp(path_.data());
    if (fd < 0) throw std::runtime_error("mkstemp");
    ::close(fd);
    write(contents);
  }
  ~TextFile() { ::unlink(path_.c_str()); }
  TextFile(const TextFile&) = delete;
  TextFile& operator=(const TextFile&) = delete;
  // In place of what it has.
  void write(const std::string& contents) { std::ofstream(path_) << contents; }
  const std::string& path() const { return path_; }

 private:
  std::string path_ = "/tmp/hvdrun-test-XXXXXX";
};

}  // namespace hvdrun
