// The shared memory of a host's ranks: memfds by name. They exist only as descriptors, here and in
// the workers that asked. So no crash leaves anything behind, and no other user can open one.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "common/base/error.h"
#include "common/base/unique_fd.h"

namespace hvdrun {

class Segments {
 public:
  // The memfd of that name, made on first request: zeroed, of `size` bytes, sealed against
  // resizing (a peer that shrank it would kill the others with SIGBUS). The descriptor stays ours.
  // Errc::mismatch when it exists with another size, limit_exceeded, or what the system said.
  std::error_code open(const std::string& name, std::uint64_t size, int& fd);

  void drop(const std::string& name) { entries_.erase(name); }
  void clear() { entries_.clear(); }

 private:
  struct Entry {
    UniqueFd fd;
    std::uint64_t size = 0;
  };
  std::map<std::string, Entry> entries_;
};

}  // namespace hvdrun
