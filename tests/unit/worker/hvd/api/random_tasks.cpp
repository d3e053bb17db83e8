#include "tests/unit/worker/hvd/api/random_tasks.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <stdexcept>

namespace hvdrun::test {
namespace {

using hvd::ReduceOp;

std::uint64_t mixed(std::uint64_t a, std::uint64_t b, std::uint64_t c) {
  std::uint64_t x = a * 0x9e3779b97f4a7c15 + b * 0xbf58476d1ce4e5b9 + c * 0x94d049bb133111eb;
  x ^= x >> 31;
  x *= 0xd6e8feb86659fd93;
  return x ^ x >> 32;
}

// Host memory of one buffer, of either kind.
class Memory {
 public:
  Memory(std::size_t bytes, bool shared) : shared_(shared) {
    if (shared_) {
      data_ = hvd::alloc(bytes + 1);
    } else {
      heap_.resize(bytes + 1);
      data_ = heap_.data();
    }
  }
  ~Memory() {
    if (shared_) hvd::free(data_);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  void* data() const { return data_; }

 private:
  bool shared_;
  std::vector<unsigned char> heap_;
  void* data_ = nullptr;
};

template <class T>
class TypedTask final : public Task {
 public:
  TypedTask(const TaskSpec& spec, const TaskSet& set)
      : spec_(spec), set_(set), ranks_(set.ranks.size()) {
    options_.name = spec.name;
    options_.process_set = set.set;
  }
  ~TypedTask() override = default;

  void submit(std::mt19937_64& own) override;
  void finish() override;

 private:
  std::size_t self() const { return static_cast<std::size_t>(set_.place); }
  std::size_t rank(std::size_t place) const { return static_cast<std::size_t>(set_.ranks[place]); }
  // Never 0, of which an adaptive sum is another thing.
  T value(std::size_t place, std::size_t at) const {
    const std::uint64_t random = mixed(spec_.numbers, rank(place), at);
    if (spec_.op == ReduceOp::product) return static_cast<T>(1 + random % 2);
    const int size = static_cast<int>(random % 8) + 1;
    return static_cast<T>(random >> 40 & 1 ? size : -size);
  }
  std::vector<T> values(std::size_t place, std::size_t count, std::size_t from = 0) const {
    std::vector<T> all(count);
    for (std::size_t i = 0; i < count; ++i) all[i] = value(place, from + i);
    return all;
  }
  std::vector<std::size_t> uneven() const {
    std::vector<std::size_t> counts;
    for (std::size_t place = 0; place < ranks_; ++place)
      counts.push_back(mixed(spec_.numbers, 77, rank(place)) % (spec_.count + 1));
    return counts;
  }
  std::size_t sent(std::size_t from, std::size_t to) const {
    return mixed(spec_.numbers, rank(from) + 100, rank(to)) % (spec_.count + 1);
  }

  T* input(const std::vector<T>& values, std::mt19937_64& own) {
    T* const to = output(values.size(), own);
    if (!values.empty()) std::memcpy(to, values.data(), values.size() * sizeof(T));
    return to;
  }
  T* output(std::size_t count, std::mt19937_64& own) {
    memory_.push_back(std::make_unique<Memory>(count * sizeof(T), own() % 4 == 0));
    return static_cast<T*>(memory_.back()->data());
  }

  double reduced(std::size_t at) const;
  std::vector<double> adaptive_sum(std::size_t count, std::size_t from) const;
  void expect(const T* got, std::size_t count, const std::function<double(std::size_t)>& wanted,
              double tolerance = 0) const;
  [[noreturn]] void fail(const std::string& what) const {
    throw std::runtime_error("operation of kind " + std::to_string(static_cast<int>(spec_.kind)) +
                             " named '" + spec_.name + "', type " + std::to_string(spec_.type) +
                             ", op " + std::to_string(static_cast<int>(spec_.op)) + ", count " +
                             std::to_string(spec_.count) + ", set " + std::to_string(spec_.set) +
                             ": " + what);
  }

  const TaskSpec spec_;
  const TaskSet& set_;
  const std::size_t ranks_;
  hvd::OperationOptions options_;
  std::vector<std::unique_ptr<Memory>> memory_;
  std::vector<T*> outputs_;
  std::vector<std::size_t> parts_;  // of a group: counts
  hvd::Handle handle_;
};

template <class T>
void TypedTask<T>::submit(std::mt19937_64& own) {
  constexpr hvd::DataType kType = hvd::DataTypeOf<T>::value;
  const std::size_t count = spec_.count;
  switch (spec_.kind) {
    case TaskKind::allreduce:
    case TaskKind::adasum: {
      T* const in = input(values(self(), count), own);
      outputs_ = {spec_.in_place ? in : output(count, own)};
      handle_ =
          hvd::allreduce_async(in, outputs_[0], count, kType, spec_.op, spec_.scale, options_);
      return;
    }
    case TaskKind::grouped_allreduce: {
      std::vector<hvd::Buffer> buffers;
      for (std::size_t part = 0; part < 3; ++part) {
        parts_.push_back(mixed(spec_.numbers, 5, part) % (count + 1));
        T* const in = input(values(self(), parts_[part], part * count), own);
        outputs_.push_back(spec_.in_place ? in : output(parts_[part], own));
        buffers.push_back({in, outputs_[part], parts_[part]});
      }
      handle_ = hvd::grouped_allreduce_async(buffers, kType, spec_.op, spec_.scale, options_);
      return;
    }
    case TaskKind::allgatherv: {
      parts_ = uneven();
      std::size_t all = 0;
      for (const std::size_t part : parts_) all += part;
      outputs_ = {output(all, own)};
      handle_ = hvd::allgatherv_async(input(values(self(), parts_[self()]), own), outputs_[0],
                                      parts_.data(), kType, options_);
      return;
    }
    case TaskKind::broadcast:
      outputs_ = {input(values(self(), count), own)};
      handle_ = hvd::broadcast_async(outputs_[0], count, kType,
                                     set_.ranks[static_cast<std::size_t>(spec_.place)], options_);
      return;
    case TaskKind::reducescatterv: {
      parts_ = uneven();
      std::size_t all = 0;
      for (const std::size_t part : parts_) all += part;
      outputs_ = {output(parts_[self()], own)};
      handle_ = hvd::reducescatterv_async(input(values(self(), all), own), outputs_[0],
                                          parts_.data(), kType, spec_.op, spec_.scale, options_);
      return;
    }
    case TaskKind::alltoallv: {
      std::vector<std::size_t> sends;
      std::size_t out = 0;
      std::size_t in = 0;
      for (std::size_t peer = 0; peer < ranks_; ++peer) {
        out += sends.emplace_back(sent(self(), peer));
        in += parts_.emplace_back(sent(peer, self()));
      }
      outputs_ = {output(in, own)};
      handle_ = hvd::alltoallv_async(input(values(self(), out), own), sends.data(), outputs_[0],
                                     parts_.data(), kType, options_);
      return;
    }
    case TaskKind::mismatch: {
      const std::size_t own_count = count + (set_.place == spec_.place ? 1 : 0);
      outputs_ = {input(values(self(), own_count), own)};
      handle_ = hvd::allreduce_async(outputs_[0], outputs_[0], own_count, kType, ReduceOp::sum, {},
                                     options_);
      return;
    }
  }
}

template <class T>
double TypedTask<T>::reduced(std::size_t at) const {
  double result = static_cast<double>(value(0, at)) * spec_.scale.prescale;
  for (std::size_t place = 1; place < ranks_; ++place) {
    const double other = static_cast<double>(value(place, at)) * spec_.scale.prescale;
    if (spec_.op == ReduceOp::min) result = std::min(result, other);
    if (spec_.op == ReduceOp::max) result = std::max(result, other);
    if (spec_.op == ReduceOp::product) result *= other;
    if (spec_.op == ReduceOp::sum || spec_.op == ReduceOp::average) result += other;
  }
  if (spec_.op == ReduceOp::average) result /= static_cast<double>(ranks_);
  result *= spec_.scale.postscale;
  return std::is_integral_v<T> ? std::trunc(result) : result;
}

template <class T>
std::vector<double> TypedTask<T>::adaptive_sum(std::size_t count, std::size_t from) const {
  std::vector<std::vector<double>> level(ranks_, std::vector<double>(count));
  for (std::size_t place = 0; place < ranks_; ++place)
    for (std::size_t i = 0; i < count; ++i)
      level[place][i] = static_cast<double>(value(place, from + i));
  while (level.size() > 1) {
    std::vector<std::vector<double>> next;
    for (std::size_t at = 0; at < level.size(); at += 2) {
      next.push_back(level[at]);
      if (at + 1 == level.size()) continue;
      const std::vector<double>& a = level[at];
      const std::vector<double>& b = level[at + 1];
      double dot = 0;
      double aa = 0;
      double bb = 0;
      for (std::size_t i = 0; i < count; ++i) {
        dot += a[i] * b[i];
        aa += a[i] * a[i];
        bb += b[i] * b[i];
      }
      // Opposite vectors add up to one without a direction.
      const double for_a = aa == 0 ? 1 : 1 - dot / (2 * aa);
      const double for_b = bb == 0 ? 1 : 1 - dot / (2 * bb);
      for (std::size_t i = 0; i < count; ++i) next.back()[i] = for_a * a[i] + for_b * b[i];
    }
    level = std::move(next);
  }
  return level[0];
}

template <class T>
void TypedTask<T>::expect(const T* got, std::size_t count,
                          const std::function<double(std::size_t)>& wanted,
                          double tolerance) const {
  for (std::size_t i = 0; i < count; ++i) {
    const double right = wanted(i);
    const double difference = std::abs(static_cast<double>(got[i]) - right);
    if (!(difference <= tolerance * std::max(1.0, std::abs(right))))
      fail("element " + std::to_string(i) + " is " + std::to_string(got[i]) + ", not " +
           std::to_string(right));
  }
}

template <class T>
void TypedTask<T>::finish() {
  const auto own_value = [&](std::size_t i) { return static_cast<double>(value(self(), i)); };
  if (spec_.kind == TaskKind::mismatch) {
    std::string text;
    try {
      hvd::synchronize(handle_);
    } catch (const hvd::Error& error) {
      if (error.code() == hvd::ErrorCode::mismatch) text = error.what();
    }
    if (text.find("'" + spec_.name + "'") == std::string::npos) fail("no mismatch: " + text);
    return expect(outputs_[0], spec_.count, own_value);  // as it was
  }
  hvd::synchronize(handle_);
  // Thirds, and what is divided by them, have no end.
  const double rounding = std::is_integral_v<T> ? 0 : 1e-6;
  switch (spec_.kind) {
    case TaskKind::allreduce:
      return expect(
          outputs_[0], spec_.count, [&](std::size_t i) { return reduced(i); }, rounding);
    case TaskKind::grouped_allreduce:
      for (std::size_t part = 0; part < parts_.size(); ++part)
        expect(
            outputs_[part], parts_[part],
            [&](std::size_t i) { return reduced(part * spec_.count + i); }, rounding);
      return;
    case TaskKind::adasum: {
      const std::vector<double> sum = adaptive_sum(spec_.count, 0);
      return expect(
          outputs_[0], spec_.count, [&](std::size_t i) { return sum[i]; }, 1e-4);
    }
    case TaskKind::allgatherv: {
      const T* got = outputs_[0];
      for (std::size_t place = 0; place < ranks_; got += parts_[place++])
        expect(got, parts_[place],
               [&](std::size_t i) { return static_cast<double>(value(place, i)); });
      return;
    }
    case TaskKind::broadcast: {
      const auto root = static_cast<std::size_t>(spec_.place);
      return expect(outputs_[0], spec_.count,
                    [&](std::size_t i) { return static_cast<double>(value(root, i)); });
    }
    case TaskKind::reducescatterv: {
      std::size_t begin = 0;
      for (std::size_t place = 0; place < self(); ++place) begin += parts_[place];
      return expect(
          outputs_[0], parts_[self()], [&](std::size_t i) { return reduced(begin + i); }, rounding);
    }
    case TaskKind::alltoallv: {
      const T* got = outputs_[0];
      for (std::size_t place = 0; place < ranks_; got += parts_[place++]) {
        std::size_t begin = 0;
        for (std::size_t peer = 0; peer < self(); ++peer) begin += sent(place, peer);
        expect(got, parts_[place],
               [&](std::size_t i) { return static_cast<double>(value(place, begin + i)); });
      }
      return;
    }
    case TaskKind::mismatch:
      return;
  }
}

}  // namespace

std::unique_ptr<Task> make_task(const TaskSpec& spec, const TaskSet& set) {
  switch (spec.type) {
    case 0:
      return std::make_unique<TypedTask<std::int32_t>>(spec, set);
    case 1:
      return std::make_unique<TypedTask<std::int64_t>>(spec, set);
    case 2:
      return std::make_unique<TypedTask<float>>(spec, set);
    default:
      return std::make_unique<TypedTask<double>>(spec, set);
  }
}

TaskSpec random_task(std::mt19937_64& random, const std::vector<TaskSet>& sets) {
  TaskSpec spec;
  spec.kind = static_cast<TaskKind>(random() % kTaskKinds);
  // Half of what a program does.
  if (random() % 2 == 0) spec.kind = TaskKind::allreduce;
  spec.type = static_cast<int>(random() % 4);
  spec.op = static_cast<ReduceOp>(1 + random() % 5);
  if (spec.kind == TaskKind::adasum) {
    spec.op = ReduceOp::adasum;
    spec.type = 2 + spec.type % 2;
  }
  if (spec.kind == TaskKind::reducescatterv) spec.op = static_cast<ReduceOp>(1 + random() % 2);
  // Powers of 2 of floating-point numbers: exact.
  if (spec.type >= 2 && spec.kind != TaskKind::adasum && random() % 4 == 0)
    spec.scale = {random() % 2 == 0 ? 0.5 : 1, 4};
  spec.count = random() % 40;
  if (random() % 4 == 0) spec.count = random() % 3000;
  // Where large ones take other ways.
  if (random() % 64 == 0) spec.count = random() % 100'000;
  if (spec.kind == TaskKind::adasum) ++spec.count;
  spec.numbers = random();
  spec.in_place = random() % 2 == 0;
  spec.set = random() % 3 == 0 ? random() % sets.size() : 0;
  spec.place = static_cast<int>(random() % sets[spec.set].ranks.size());
  // Alone nobody else is wrong.
  if (spec.kind == TaskKind::mismatch && sets[spec.set].ranks.size() == 1)
    spec.kind = TaskKind::broadcast;
  return spec;
}

}  // namespace hvdrun::test
