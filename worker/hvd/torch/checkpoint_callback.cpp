#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <stdexcept>
#include <string>
#include <system_error>
#include <unistd.h>

#include <hvd/torch.h>

#include "common/base/flush_folder.h"
#include "common/base/output_place.h"
#include "common/base/unique_fd.h"

namespace hvdrun {
namespace {

[[noreturn]] void throw_error(int number, const std::string& what) {
  throw std::system_error(number, std::generic_category(), what);
}

void flush_file(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file || ::fsync(file.get()) != 0) throw_error(errno, path);
}

void write_whole(const std::string& path,
                 const std::function<void(const std::string& file)>& write) {
  OutputPlace place;
  if (const int fault = find_output_place(path, place); fault != 0) throw_error(fault, path);
  if (!place.is_file) return write(path);
  const std::string temporary = place.path + ".new";
  try {
    write(temporary);
    flush_file(temporary);
    if (std::rename(temporary.c_str(), place.path.c_str()) != 0) throw_error(errno, path);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  const std::size_t slash = place.path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : place.path.substr(0, slash + 1);
  if (const int failed = flush_folder(folder); failed != 0) throw_error(failed, folder);
}

}  // namespace
}  // namespace hvdrun

namespace hvd {

void checkpoint_on_root(const std::string& path,
                        const std::function<void(const std::string& file)>& write, int root,
                        const ProcessSet& process_set) {
  std::string failure;
  if (rank() == root) {
    try {
      hvdrun::write_whole(path, write);
    } catch (const std::exception& error) {
      failure = error.what();
      if (failure.empty()) failure = "an error without words";
    } catch (...) {  // the others wait for what came of it
      failure = "an error without words";
    }
  }
  failure = broadcast_object(failure, root, {{}, process_set, {}});
  if (!failure.empty())
    throw Error(ErrorCode::unavailable, "checkpoint_on_root: " + path + " of rank " +
                                            std::to_string(root) + ": " + failure);
}

}  // namespace hvd
