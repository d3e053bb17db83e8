// The last few checkpoints of a run in a folder of their own, a file for each epoch. A new one is
// safe on the disk before an old one is removed, so that there is always one to go on from.
// One process uses it, rank 0. No LibTorch in here.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace hvdrun {

class CheckpointFolder {
 public:
  // Keeps the newest `keep` files, at least 1.
  CheckpointFolder(std::string path, std::int64_t keep);

  // Makes the folder where it is missing, and removes what a killed writer has left. A run that
  // does not go on from this folder must not mix its epochs with those of another: with
  // `resumed_from` another one (or empty), checkpoints in it are an error. False, and `error` names
  // the folder or the file.
  // The folder is then the job's (`job`, empty where it never starts again), for is_of().
  bool prepare(const std::string& resumed_from, const std::string& job, std::string& error) const;
  // The job has prepared it, and has checkpoints in it.
  bool is_of(const std::string& job) const;
  // `bytes` as the checkpoint of `epoch`, then those before the newest `keep` are removed; what is
  // of later epochs stays, since this run will come to them. A writer that is killed in between
  // leaves one more, which the next write removes. False, and `error` names the file.
  bool write(std::int64_t epoch, std::string_view bytes, std::string& error) const;

 private:
  std::string path_;
  std::int64_t keep_;
};

// Paths, the newest first. Empty, and `error` says why, when there is none.
std::vector<std::string> checkpoints_in(const std::string& folder, std::string& error);

struct FoundCheckpoint {
  std::string path;
  std::string bytes;                 // as add_checksum() in checked_file.h made them
  std::vector<std::string> damaged;  // a line for each that was passed over, newer than this one
};
// Says of the bytes of an undamaged checkpoint why nobody should go on from it.
using CheckpointTest = std::function<bool(std::string_view bytes, std::string& error)>;
// The checkpoint that `path` names: a file, or the newest of a folder that is undamaged and passes
// `test`. None, and `error` names the file.
std::optional<FoundCheckpoint> find_checkpoint(const std::string& path, const CheckpointTest& test,
                                               std::string& error);

}  // namespace hvdrun
