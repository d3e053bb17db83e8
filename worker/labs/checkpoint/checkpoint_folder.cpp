#include "worker/labs/checkpoint/checkpoint_folder.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "worker/labs/checkpoint/checked_file.h"
#include "worker/labs/data/files/whole_file.h"

namespace hvdrun {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxCheckpoint = std::uint64_t{4} << 30;
constexpr std::string_view kPrefix = "epoch-";
constexpr std::string_view kSuffix = ".ckpt";
constexpr const char* kJobFile = "/.job";  // the launcher's name of the job that writes there
constexpr std::string_view kUnfinished = ".ckpt.tmp.";  // whole_file.cpp names it so

// Six digits, so that ls has them in order.
std::string name_of(std::int64_t epoch) {
  char text[48];
  std::snprintf(text, sizeof(text), "epoch-%06lld.ckpt", static_cast<long long>(epoch));
  return text;
}

// None for a file that is not ours.
std::optional<std::int64_t> epoch_of(const std::string& name) {
  std::int64_t epoch = 0;
  if (name.size() < kPrefix.size() + kSuffix.size()) return std::nullopt;
  const char* const end = name.data() + name.size() - kSuffix.size();
  const auto [stop, trouble] = std::from_chars(name.data() + kPrefix.size(), end, epoch);
  if (trouble != std::errc() || stop != end || name != name_of(epoch)) return std::nullopt;
  return epoch;
}

// All names in a folder. Empty, with an error, when it cannot be read.
std::vector<std::string> names_in(const std::string& folder, std::string& error) {
  std::vector<std::string> names;
  std::error_code trouble;
  fs::directory_iterator entry(folder, trouble);
  for (; !trouble && entry != fs::directory_iterator(); entry.increment(trouble))
    names.push_back(entry->path().filename().string());
  if (!trouble) return names;
  error = folder + ": " + trouble.message();
  return {};
}

// Newest first.
std::vector<std::int64_t> epochs_in(const std::string& folder, std::string& error) {
  std::vector<std::int64_t> epochs;
  for (const std::string& name : names_in(folder, error))
    if (const auto epoch = epoch_of(name)) epochs.push_back(*epoch);
  std::sort(epochs.rbegin(), epochs.rend());
  return epochs;
}

}  // namespace

CheckpointFolder::CheckpointFolder(std::string path, std::int64_t keep)
    : path_(std::move(path)), keep_(keep) {}

bool CheckpointFolder::prepare(const std::string& resumed_from, const std::string& job,
                               std::string& error) const {
  std::error_code trouble;
  fs::create_directories(path_, trouble);
  if (trouble) {
    error = path_ + ": " + trouble.message();
    return false;
  }
  for (const std::string& name : names_in(path_, error)) {
    if (name.rfind(kPrefix, 0) != 0 || name.find(kUnfinished) == std::string::npos) continue;
    fs::remove(fs::path(path_) / name, trouble);
  }
  const bool goes_on = !resumed_from.empty() && fs::equivalent(path_, resumed_from, trouble);
  if (error.empty() && !goes_on && !epochs_in(path_, error).empty()) {
    error = path_ + ": has the checkpoints of a run already; go on from them with --resume " +
            path_ + ", or name another folder";
  }
  if (error.empty() && !job.empty()) write_whole_file(path_ + kJobFile, job, error);
  return error.empty();
}

bool CheckpointFolder::is_of(const std::string& job) const {
  std::string error;
  const auto known = job.empty() ? std::nullopt : read_whole_file(path_ + kJobFile, 64, error);
  return known == job && !epochs_in(path_, error).empty();
}

bool CheckpointFolder::write(std::int64_t epoch, std::string_view bytes, std::string& error) const {
  if (!write_whole_file(path_ + "/" + name_of(epoch), bytes, error)) return false;
  std::int64_t kept = 0;
  for (const std::int64_t old : epochs_in(path_, error)) {
    if (old > epoch || ++kept <= keep_) continue;
    std::error_code trouble;
    const std::string path = path_ + "/" + name_of(old);
    fs::remove(path, trouble);
    if (trouble) error = path + ": " + trouble.message();
  }
  return error.empty();
}

std::vector<std::string> checkpoints_in(const std::string& folder, std::string& error) {
  std::vector<std::string> paths;
  for (const std::int64_t epoch : epochs_in(folder, error))
    paths.push_back(folder + "/" + name_of(epoch));
  if (paths.empty() && error.empty())
    error = folder + ": no checkpoint in it (epoch-000001.ckpt and so on)";
  return paths;
}

std::optional<FoundCheckpoint> find_checkpoint(const std::string& path, const CheckpointTest& test,
                                               std::string& error) {
  FoundCheckpoint found;
  std::error_code trouble;
  const bool is_folder = fs::is_directory(path, trouble);
  const auto paths = is_folder ? checkpoints_in(path, error) : std::vector<std::string>{path};
  for (const std::string& candidate : paths) {
    error.clear();
    auto bytes = read_whole_file(candidate, kMaxCheckpoint, error);
    // The fault of a file that is named is told by decode_checkpoint().
    std::string damage;
    const bool is_whole = bytes && verify_checksum(*bytes, damage);
    if (is_folder && bytes && !is_whole) error = damage;
    if (bytes && (is_whole ? test(*bytes, error) : !is_folder)) {
      found.path = candidate;
      found.bytes = std::move(*bytes);
      return found;
    }
    if (bytes) error.insert(0, candidate + ": ");
    found.damaged.push_back(error);
  }
  if (paths.size() > 1)
    error = path + ": none of its " + std::to_string(paths.size()) +
            " checkpoints can be read; the oldest: " + error;
  return std::nullopt;
}

}  // namespace hvdrun
