// A file system that cannot flush a folder, or fails to: while one of these lives, fsync of folders
// fails so in the whole program. Files are flushed as ever.
#pragma once

namespace hvdrun::test {

class RefusedFlush {
 public:
  explicit RefusedFlush(int error);  // errno
  ~RefusedFlush();
  RefusedFlush(const RefusedFlush&) = delete;
  RefusedFlush& operator=(const RefusedFlush&) = delete;

  // The number of times that it was asked for.
  int asked() const;
};

}  // namespace hvdrun::test
