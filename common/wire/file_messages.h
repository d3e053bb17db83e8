// Files that ranks on other hosts write below --sync-dir, on their way to hvdrun's machine: agent
// to viewer and back, over the output connection. A host has one file under way at a time.
#pragma once

#include <cstdint>
#include <string>

#include "common/wire/base_messages.h"

namespace hvdrun {

// Where the ranks of this host write. Before the first file, and once more as the agent leaves.
struct FileFolder {
  static constexpr auto kType = MessageType::file_folder;
  std::string path;        // absolute, there
  bool done = false;       // nothing follows
  std::uint32_t left = 0;  // files that stay there, as they could not be kept here
  template <class V>
  void visit(V& v) {
    v(path);
    v(done);
    v(left);
  }
};

struct FileBegin {
  static constexpr auto kType = MessageType::file_begin;
  std::string path;  // relative (common/wire/file_path.h)
  std::uint64_t size = 0;
  std::uint32_t mode = 0;     // permission bits
  std::uint64_t time_ns = 0;  // of its last change, since 1970
  template <class V>
  void visit(V& v) {
    v(path);
    v(size);
    v(mode);
    v(time_ns);
  }
};

struct FileData {
  static constexpr auto kType = MessageType::file_data;
  std::string bytes;
  template <class V>
  void visit(V& v) {
    v(bytes);
  }
};

// `whole`: it has not changed meanwhile. Else what came is dropped, and it comes again.
struct FileEnd {
  static constexpr auto kType = MessageType::file_end;
  bool whole = false;
  template <class V>
  void visit(V& v) {
    v(whole);
  }
};

// So many bytes have been written: as many more may come.
struct FileCredit {
  static constexpr auto kType = MessageType::file_credit;
  std::uint32_t bytes = 0;
  template <class V>
  void visit(V& v) {
    v(bytes);
  }
};

// The answer to a FileEnd. `kept`: the file is there, under its name.
struct FileKept {
  static constexpr auto kType = MessageType::file_kept;
  bool kept = false;
  template <class V>
  void visit(V& v) {
    v(kept);
  }
};

// A line for the user: what of the folder is not brought, say.
struct FileRemark {
  static constexpr auto kType = MessageType::file_remark;
  std::string text;
  template <class V>
  void visit(V& v) {
    v(text);
  }
};

}  // namespace hvdrun
