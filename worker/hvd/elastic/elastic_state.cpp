#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

#include <hvd/elastic_run.h>

#include "worker/hvd/elastic/first_step.h"

namespace hvd::elastic {
namespace {

// In the bytes of a state.
struct SamplerPlace {
  std::uint64_t epoch;
  std::uint64_t processed;
};

// A handle's piece. While one is copied to its place the next one comes.
constexpr std::size_t kPieceBytes = std::size_t{16} << 20U;

}  // namespace

MembersChange::~MembersChange() = default;

const char* MembersChange::what() const noexcept {
  return "the ranks of the job change: hvd::elastic::run() goes on with the new ones";
}

State::~State() = default;

void State::commit() {
  save_all();
  if (!is_elastic()) return;
  // Whoever is through here knows that all others have this commit, too.
  std::uint8_t wanted = meeting_wanted() ? 1 : 0;
  hvdrun::FirstStep& first = hvdrun::first_step();
  if (first.is_of(this) && first.take_ended()) {
    if (std::exchange(owns_group_, false)) remove_process_set(std::exchange(group_, {}));
    double waited = first.seconds_waited();
    allreduce(&waited, &waited, 1, ReduceOp::max, {}, {"hvd.elastic.wait", {}, {}});
    first.set_waited(waited);
  }
  allreduce(&wanted, &wanted, 1, ReduceOp::max, {}, {"hvd.elastic.commit", {}, {}});
  if (wanted == 0) return;
  is_current_ = !has_callbacks();
  throw MembersChange();
}

// A copy that is still being sent must not be overwritten. Ranks that are new and have not caught
// up have nothing to save: the training has made this commit without them.
void State::save_all() {
  const auto begin = std::chrono::steady_clock::now();
  wait_for_transfer();
  if (!is_new_) {
    save();
    ++commits_;
  }
  hvdrun::FirstStep& first = hvdrun::first_step();
  if (!first.is_on() || !first.is_of(this)) return;
  if (process_set_rank(group_) >= 0) sync();
  if (is_new_) {
    has_arrived();
    ++commits_;
  }
  first.set_waited(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  first.end();
}

void State::begin_transfer(std::uint64_t commits) {
  transferred_ = commits;
  if (process_set_rank(group_) >= 0) transfer_ = begin_sync();
}

// All of it, even after an error: no operation may use the copy any more.
void State::wait_for_transfer(bool takes_pieces) {
  std::exception_ptr first;
  std::size_t number = 0;
  for (const Handle& handle : std::exchange(transfer_, {})) {
    try {
      synchronize(handle);
      if (takes_pieces && !first) end_piece(number);
    } catch (...) {  // it may be the program's
      if (!first) first = std::current_exception();
    }
    ++number;
  }
  if (first) std::rethrow_exception(first);
}

void State::end_transfer() {
  if (!is_new_) return;
  wait_for_transfer(true);
  end_sync();
  has_arrived();
}

void State::has_arrived() {
  commits_ = transferred_;
  is_new_ = false;
  is_shared_ = true;
}

void State::drop_transfer() noexcept {
  try {
    wait_for_transfer();
  } catch (const std::exception&) {
    // Nobody needs what it was to bring.
  }
  owns_group_ = false;
  hvdrun::first_step().end();
  hvdrun::first_step().take_ended();
}

std::vector<Handle> State::begin_sync() {
  sync();
  return {};
}

void State::end_piece(std::size_t /*number*/) {}

void State::end_sync() {}

void State::register_reset_callback(std::function<void()> callback) {
  callbacks_.push_back(std::move(callback));
}

void State::register_leave_callback(std::function<void()> callback) {
  leave_callbacks_.push_back(std::move(callback));
}

void State::on_leave() {
  for (const auto& callback : leave_callbacks_) callback();
}

void State::on_reset() {
  reset();
  for (const auto& callback : callbacks_) callback();
}

void State::require_same_layout(const std::string& who, const std::string& layout) const {
  const std::vector<std::string> all = allgather_object(layout, {"hvd.elastic.layout", group_, {}});
  const std::vector<int> ranks = process_set_ranks(group_);
  const auto sender = std::find(ranks.begin(), ranks.end(), source_) - ranks.begin();
  const std::string& right = all[static_cast<std::size_t>(sender)];
  const auto other =
      std::find_if(all.begin(), all.end(), [&](const std::string& one) { return one != right; });
  if (other == all.end()) return;
  const bool differs = layout != right;
  const std::string named =
      differs ? std::to_string(rank())
              : std::to_string(ranks[static_cast<std::size_t>(other - all.begin())]);
  const std::string text = who + ": rank " + std::to_string(source_) + " has " + right + ", rank " +
                           named + " has " + (differs ? layout : *other);
  if (!is_elastic()) throw Error(ErrorCode::mismatch, text);
  if (differs) throw Error(ErrorCode::invalid_argument, text + "; it runs another program");
  throw Error(ErrorCode::peer_lost, text);
}

MemoryState::~MemoryState() = default;

MemoryState& MemoryState::add(const std::string& name, void* data, std::size_t bytes) {
  return add_part(name, {data, bytes, false});
}

MemoryState& MemoryState::add_part(const std::string& name, const Part& part) {
  if (!parts_.emplace(name, part).second)
    throw Error(ErrorCode::invalid_argument, "MemoryState: there is a '" + name + "' already");
  save();
  return *this;
}

MemoryState& MemoryState::add(ElasticSampler& sampler) {
  samplers_.push_back(&sampler);
  save();
  return *this;
}

std::string MemoryState::layout() const {
  std::string text = std::to_string(samplers_.size()) + " samplers";
  for (const auto& [name, part] : parts_)
    text += ", " + name + " of " + std::to_string(part.bytes) + " bytes";
  return text;
}

std::size_t MemoryState::size() const {
  std::size_t bytes = samplers_.size() * sizeof(SamplerPlace);
  for (const auto& [name, part] : parts_) bytes += part.bytes;
  return bytes;
}

void MemoryState::take(bool memory_too) {
  std::size_t at = 0;
  const auto next = [&](void* to, std::size_t count) {
    copy_.copy(static_cast<char*>(to), count, at);
    at += count;
  };
  for (const auto& [name, part] : parts_) {
    if (memory_too || part.steers)
      next(part.data, part.bytes);
    else
      at += part.bytes;
  }
  for (ElasticSampler* const sampler : samplers_) {
    SamplerPlace place;
    next(&place, sizeof place);
    sampler->load(place.epoch, place.processed);
  }
}

// Parts in the order of their names, then the samplers in that of their coming. In place: new
// memory for a large state costs more than its copy.
void MemoryState::save() {
  copy_.resize(size());
  std::size_t at = 0;
  const auto put = [&](const void* from, std::size_t count) {
    std::copy_n(static_cast<const char*>(from), count, copy_.data() + at);
    at += count;
  };
  for (const auto& [name, part] : parts_) put(part.data, part.bytes);
  for (const ElasticSampler* const sampler : samplers_) {
    const SamplerPlace place{sampler->epoch(), sampler->processed()};
    put(&place, sizeof place);
  }
}

void MemoryState::restore() { take(true); }

void MemoryState::sync() {
  require_same_layout("MemoryState::sync", layout());
  const bool sends = rank() == source();
  if (sends && !copy_is_current()) save();
  // The newest state is put beside a commit: should it break off, that is needed yet.
  const bool beside = !sends && !is_new();
  std::string newest;
  if (beside) newest.resize(size());
  std::string& state = beside ? newest : copy_;
  broadcast(state.data(), state.size(), DataType::uint8, source(),
            {"hvd.elastic.state", group(), {}});
  if (sends) return;
  if (beside) copy_.swap(newest);
  restore();
}

std::vector<Handle> MemoryState::begin_sync() {
  require_same_layout("MemoryState::sync", layout());
  const bool sends = rank() == source();
  if (sends && !copy_is_current()) save();
  // Pieces of the copy, numbers and samplers on their own.
  pieces_.clear();
  std::size_t at = 0;
  std::string steering;
  for (const auto& [name, part] : parts_) {
    if (part.steers) {
      steering.append(copy_, at, part.bytes);
    } else {
      for (std::size_t done = 0; done < part.bytes; done += kPieceBytes)
        pieces_.push_back({static_cast<char*>(part.data) + done, at + done,
                           std::min(kPieceBytes, part.bytes - done)});
    }
    at += part.bytes;
  }
  steering.append(copy_, at);
  broadcast(steering.data(), steering.size(), DataType::uint8, source(),
            {"hvd.elastic.values", group(), {}});
  if (!sends) {
    std::size_t from = 0;
    std::size_t to = 0;
    for (const auto& [name, part] : parts_) {
      if (part.steers) {
        copy_.replace(to, part.bytes, steering, from, part.bytes);
        from += part.bytes;
      }
      to += part.bytes;
    }
    copy_.replace(to, std::string::npos, steering, from);
    take(false);
  }
  std::vector<Handle> handles;
  handles.reserve(pieces_.size());
  for (const Piece& piece : pieces_)
    handles.push_back(
        broadcast_async(copy_.data() + piece.at, piece.bytes, DataType::uint8, source(),
                        {"hvd.elastic.state." + std::to_string(handles.size()), group(), {}}));
  return handles;
}

void MemoryState::end_piece(std::size_t number) {
  if (number >= pieces_.size()) return;  // of a derived class
  const Piece& piece = pieces_[number];
  copy_.copy(piece.to, piece.bytes, piece.at);
}

void MemoryState::reset() {
  for (ElasticSampler* const sampler : samplers_) sampler->reset();
}

}  // namespace hvd::elastic
