#include <algorithm>

#include <hvd/elastic_run.h>

namespace hvd::elastic {
namespace {

// In the bytes of a state.
struct SamplerPlace {
  std::uint64_t epoch;
  std::uint64_t processed;
};

}  // namespace

MembersChange::~MembersChange() = default;

const char* MembersChange::what() const noexcept {
  return "the ranks of the job change: hvd::elastic::run() goes on with the new ones";
}

State::~State() = default;

void State::commit() {
  save();
  ++commits_;
  if (!is_elastic()) return;
  // Whoever is through here knows that all others have this commit, too.
  std::uint8_t wanted = meeting_wanted() ? 1 : 0;
  allreduce(&wanted, &wanted, 1, ReduceOp::max, {}, {"hvd.elastic.commit", {}, {}});
  if (wanted != 0) throw MembersChange();
}

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
  if (!parts_.emplace(name, std::pair(data, bytes)).second)
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
    text += ", " + name + " of " + std::to_string(part.second) + " bytes";
  return text;
}

std::size_t MemoryState::size() const {
  std::size_t bytes = samplers_.size() * sizeof(SamplerPlace);
  for (const auto& [name, part] : parts_) bytes += part.second;
  return bytes;
}

void MemoryState::take(const std::string& bytes) {
  std::size_t at = 0;
  const auto next = [&](void* to, std::size_t count) {
    bytes.copy(static_cast<char*>(to), count, at);
    at += count;
  };
  for (const auto& [name, part] : parts_) next(part.first, part.second);
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
  for (const auto& [name, part] : parts_) put(part.first, part.second);
  for (const ElasticSampler* const sampler : samplers_) {
    const SamplerPlace place{sampler->epoch(), sampler->processed()};
    put(&place, sizeof place);
  }
}

void MemoryState::restore() { take(copy_); }

void MemoryState::sync() {
  require_same_layout("MemoryState::sync", layout());
  // The newest state is put beside the copy: should it break off, this rank's commit is needed yet.
  const bool sends = rank() == source();
  std::string newest;
  if (sends)
    save();
  else
    newest.resize(size());
  std::string& state = sends ? copy_ : newest;
  broadcast(state.data(), state.size(), DataType::uint8, source(),
            {"hvd.elastic.state", group(), {}});
  if (sends) return;
  copy_.swap(newest);
  restore();
}

void MemoryState::reset() {
  for (ElasticSampler* const sampler : samplers_) sampler->reset();
}

}  // namespace hvd::elastic
