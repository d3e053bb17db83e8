// The batches that ran after each other, so that a rank can tell what all ranks will run next
// without asking them. Sans-I/O.
//
// Every rank of a communicator runs the same batches in the same order, so their histories are
// equal. Were they not, ranks would call different things, notice it, and negotiate: a wrong
// prediction costs time only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

namespace hvdrun {

class BatchHistory {
 public:
  // By which an operation is known from one step of a program to the next: name and meta of its
  // Entry; the name is kUnnamed for all that have none.
  struct Member {
    std::uint64_t name;
    std::uint64_t meta;
    bool operator==(const Member&) const = default;
  };
  using Batch = std::vector<Member>;

  // The ranks' name of the batch.
  static std::uint64_t fingerprint(const Batch& batch);
  static std::uint64_t fingerprint(const Member& member);

  // The batch that followed the last two the last time; null when they are new.
  const Batch* predicted() const {
    return current_ != nullptr && current_->times > 0 ? &current_->batch : nullptr;
  }
  // It did so often enough that there is no better to be found.
  bool settled() const { return current_ != nullptr && current_->times >= kSettled; }
  // A batch has run.
  void ran(const Batch& batch, std::uint64_t fingerprint);
  void ran(const Member& member, std::uint64_t fingerprint);

 private:
  static constexpr unsigned kSettled = 2;
  static constexpr std::size_t kMostStates = 16384;

  // The two last batches, and what came next.
  struct State {
    std::uint64_t next = 0;  // its fingerprint
    unsigned times = 0;      // in a row
    Batch batch;
    State* after = nullptr;
  };

  bool repeated(std::uint64_t fingerprint);
  void changed(Batch batch, std::uint64_t fingerprint);

  std::unordered_map<std::uint64_t, std::unique_ptr<State>> states_;
  State* current_ = nullptr;
  std::uint64_t last_ = 0;
};

}  // namespace hvdrun
