#include "cli/output/output_files.h"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

#include "cli/text/user_errors.h"
#include "common/base/fault_text.h"

namespace hvdrun {
namespace {

namespace fs = std::filesystem;

// Descriptors are few (1024 by default), ranks may be many: the files used last stay open.
constexpr std::size_t kOpenFiles = 128;

std::error_code last_error() { return {errno, std::system_category()}; }

UsageError cannot(const std::string& what, const std::error_code& ec) {
  return UsageError("--output-filename: " + what + ": " + fault_text(ec));
}

// rank.0, rank.017, rank.3.1: what a run makes.
bool is_rank_folder(const std::string& name) {
  constexpr std::string_view kPrefix = "rank.";
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  return name.starts_with(kPrefix) && is_digit(name.back()) &&
         std::all_of(name.begin() + kPrefix.size(), name.end(),
                     [&](char c) { return is_digit(c) || c == '.'; });
}

}  // namespace

OutputFiles::OutputFiles(std::string folder, std::uint32_t np, Begin begin)
    : folder_(std::move(folder)), width_(std::to_string(np - 1).size()), begin_(begin) {
  std::error_code ec;
  fs::create_directories(folder_, ec);
  if (ec) throw cannot(folder_, ec);
  lock_.reset(::open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!lock_) throw cannot(folder_, last_error());
  // Network file systems may have no locks; that is no reason not to write there.
  if (::flock(lock_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    throw UsageError("--output-filename: another hvdrun is writing to " + folder_ +
                     "; name another folder");
  if (begin == Begin::anew) move_earlier_run();
  for (std::uint32_t rank = 0; rank < np; ++rank) {
    for (const OutputStream stream : {OutputStream::out, OutputStream::err}) {
      ec = open({rank, 0, stream});
      if (ec) throw cannot(path(rank, stream), ec);
    }
  }
}

void OutputFiles::move_earlier_run() {
  std::error_code ec;
  std::vector<fs::path> old;
  for (const auto& entry : fs::directory_iterator(folder_, ec))
    if (is_rank_folder(entry.path().filename())) old.push_back(entry.path());
  if (ec) throw cannot(folder_, ec);
  if (old.empty()) return;
  for (int number = 1; moved_to_.empty(); ++number) {
    std::string place = folder_ + "/run." + std::to_string(number);
    if (::mkdir(place.c_str(), 0777) == 0) {
      moved_to_ = std::move(place);
    } else if (errno != EEXIST) {
      throw cannot(place, last_error());
    }
  }
  for (const fs::path& path : old) {
    fs::rename(path, fs::path(moved_to_) / path.filename(), ec);
    if (ec) throw cannot(path, ec);
  }
}

std::string OutputFiles::rank_folder(std::uint32_t rank, std::uint32_t start) const {
  const std::string number = std::to_string(rank);
  return folder_ + "/rank." + std::string(width_ - std::min(width_, number.size()), '0') + number +
         (start == 0 ? "" : "." + std::to_string(start));
}

std::string OutputFiles::path(std::uint32_t rank, OutputStream stream, std::uint32_t start) const {
  return rank_folder(rank, start) + (stream == OutputStream::out ? "/stdout" : "/stderr");
}

std::error_code OutputFiles::open(const Key& key) {
  const auto& [rank, start, stream] = key;
  const auto [at, is_new] = files_.try_emplace(key);
  File& file = at->second;
  if (is_new && ::mkdir(rank_folder(rank, start).c_str(), 0777) != 0 && errno != EEXIST)
    return last_error();
  const int creates = begin_ == Begin::anew ? O_CREAT | O_EXCL : O_CREAT;
  file.fd.reset(::open(path(rank, stream, start).c_str(),
                       O_WRONLY | O_APPEND | O_CLOEXEC | (is_new ? creates : 0), 0666));
  if (!file.fd) return last_error();
  used_.push_front(key);
  file.use = used_.begin();
  if (used_.size() > kOpenFiles) {
    files_[used_.back()].fd.reset();
    used_.pop_back();
  }
  return {};
}

std::error_code OutputFiles::write(const Output& output) {
  const Key key{output.rank, output.start, output.stream};
  std::error_code ec;
  if (const auto known = files_.find(key); known == files_.end() || !known->second.fd) {
    if (known != files_.end() && known->second.failed) return {};
    ec = open(key);
  } else {
    used_.splice(used_.begin(), used_, known->second.use);
  }
  File& file = files_[key];
  if (file.failed) return {};
  std::string_view bytes = output.bytes;
  while (!ec && !bytes.empty()) {
    const ssize_t sent = ::write(file.fd.get(), bytes.data(), bytes.size());
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno != EINTR) {
      ec = last_error();
    }
  }
  file.failed = static_cast<bool>(ec);
  return ec;
}

}  // namespace hvdrun
