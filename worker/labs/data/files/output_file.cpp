#include "worker/labs/data/files/output_file.h"

#include <cerrno>
#include <system_error>
#include <unistd.h>

namespace hvdrun {
namespace {

constexpr std::size_t kEnough = 16U << 10;  // bytes

}  // namespace

OutputFile::~OutputFile() {
  if (file_) flush();
}

bool OutputFile::open(const std::string& name, Begin begin, std::string& error) {
  name_ = name;
  file_ = open_output_stream(name, begin);
  if (!file_) error = name + ": " + output_fault_text(errno);
  return is_open();
}

bool OutputFile::write(std::string_view bytes, std::string& error) {
  waiting_ += bytes;
  flush();
  if (fault_ != 0) error = name_ + ": " + output_fault_text(fault_);
  return fault_ == 0;
}

void OutputFile::add(std::string_view bytes) {
  waiting_ += bytes;
  if (waiting_.size() >= kEnough) flush();
}

bool OutputFile::close(std::string& error) {
  if (!write({}, error)) return false;
  if (::close(file_.release()) == 0 || errno == EINTR) return true;
  error = name_ + ": " + output_fault_text(errno);
  return false;
}

void OutputFile::flush() {
  if (fault_ == 0 && !write_all(file_.get(), waiting_)) fault_ = errno;
  waiting_.clear();
}

}  // namespace hvdrun
