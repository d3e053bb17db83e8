#include "worker/hvd/comm/adasum.h"

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <memory>

#include "worker/hvd/comm/reduce/adasum_arithmetic.h"
#include "worker/hvd/comm/reduce/copy.h"
#include "worker/hvd/comm/reduce/float_mode.h"
#include "worker/hvd/comm/size_class.h"

namespace hvdrun {
namespace {

constexpr std::size_t kBatchDots = 64U << 10;  // of a round
constexpr std::size_t kLoadElements = 4096;

struct Range {
  std::size_t begin;
  std::size_t end;
};

// Tensors that are combined together, and where they stand in the row of all.
struct Batch {
  Range elements;
  std::vector<Range> parts;  // none is empty
};

std::vector<Batch> batches_of(const std::vector<BufferPart>& tensors, std::size_t ranks,
                              std::size_t width) {
  const std::size_t most_elements = kAdasumBatchBytes / width;
  const std::size_t most_parts = std::max<std::size_t>(1, kBatchDots / ranks);
  std::vector<Batch> batches;
  std::size_t begin = 0;
  for (const BufferPart& tensor : tensors) {
    const std::size_t count = tensor.count;
    if (count == 0) continue;
    if (batches.empty() || batches.back().parts.size() >= most_parts ||
        begin + count - batches.back().elements.begin > most_elements)
      batches.push_back({{begin, begin}, {}});
    batches.back().parts.push_back({begin, begin + count});
    begin = batches.back().elements.end = begin + count;
  }
  return batches;
}

// Sums are of type Acc; a rank's elements are a row.
template <class Acc>
class Adasum {
 public:
  Adasum(Communicator& communicator, const Reduction& reduction, const CallOptions& step)
      : communicator_(communicator),
        ranks_(static_cast<std::size_t>(communicator.size())),
        rank_(static_cast<std::size_t>(communicator.rank())),
        type_(reduction.type),
        width_(element_size(type_)),
        first_{type_, hvd::ReduceOp::sum, reduction.prescale, 1},
        last_{type_, hvd::ReduceOp::sum, 1, reduction.postscale},
        step_(step) {}

  // Everybody combines everything.
  void run_small(const BufferRow& row, const std::vector<Batch>& batches) {
    const std::size_t count = row.count();
    allocate(count);
    const std::vector<std::size_t> counts(ranks_, count);
    const auto whole = row.whole(0, count);
    std::byte* const own = arrived() + rank_ * count * width_;
    if (!whole) row.copy_inputs(0, count, own);
    communicator_.allgather(whole ? whole->input : own, arrived(), counts.data(), type_, step_);
    load();
    for (const Batch& batch : batches) combine(batch.parts, false);
    row.visit(0, count, [&](std::size_t at, const BufferPart& part) {
      store(at, part.count, static_cast<std::byte*>(part.output));
    });
  }

  // Everybody combines a slice.
  void run(const BufferRow& row, const Batch& batch) {
    assert(ranks_ > 1);
    const Range all = batch.elements;
    std::vector<std::size_t> counts;
    for (std::size_t rank = 0; rank < ranks_; ++rank)
      counts.push_back(begin_of(all, rank + 1) - begin_of(all, rank));
    const Range slice{begin_of(all, rank_), begin_of(all, rank_ + 1)};
    allocate(counts[rank_]);
    const std::vector<std::size_t> own(ranks_, counts[rank_]);
    communicator_.alltoall_from(row, all.begin, counts.data(), arrived(), own.data(), type_, step_);
    load();
    std::vector<Range> parts;
    for (const Range& part : batch.parts)
      parts.push_back({std::clamp(part.begin, slice.begin, slice.end) - slice.begin,
                       std::clamp(part.end, slice.begin, slice.end) - slice.begin});
    combine(parts, true);
    // The results come in one piece, and go from there to tensors that are elsewhere.
    const std::size_t count = all.end - all.begin;
    const auto whole = row.whole(all.begin, count);
    if (!whole) results_.resize(std::max(results_.size(), count * width_));
    auto* const output = whole ? static_cast<std::byte*>(whole->output) : results_.data();
    std::byte* const place = output + (slice.begin - all.begin) * width_;
    store(0, row_size_, place);
    communicator_.allgather(place, output, counts.data(), type_, step_);
    if (!whole) row.copy_outputs(all.begin, count, output);
  }

 private:
  // Whole cache lines of a row.
  std::size_t begin_of(const Range& all, std::size_t rank) const {
    constexpr std::size_t kGrain = 64;
    const std::size_t each = (all.end - all.begin + ranks_ - 1) / ranks_;
    return std::min(all.end, all.begin + rank * ((each + kGrain - 1) / kGrain * kGrain));
  }

  void allocate(std::size_t row_size) {
    row_size_ = row_size;
    if (row_size * ranks_ <= room_) return;
    rows_.reset();
    room_ = row_size * ranks_;
    rows_ = std::make_unique_for_overwrite<Acc[]>(room_);
  }
  // The end of the rows: where elements are narrower they become wider in place, from the front.
  std::byte* arrived() {
    return reinterpret_cast<std::byte*>(rows_.get()) + ranks_ * row_size_ * (sizeof(Acc) - width_);
  }
  void load() {
    if (width_ == sizeof(Acc) && first_.prescale == 1) return;
    std::byte buffer[kLoadElements * sizeof(Acc)];
    const std::byte* const source = buffer;
    for (std::size_t done = 0; done < ranks_ * row_size_; done += kLoadElements) {
      const std::size_t count = std::min(kLoadElements, ranks_ * row_size_ - done);
      // The writing ends before the part that has not been read yet.
      copy_bytes(buffer, arrived() + done * width_, count * width_);
      auto* const target = reinterpret_cast<std::byte*>(rows_.get() + done);
      reduce_buffers(&source, 1, count, first_, &target, 1, {.unfinished = true});
    }
  }
  // Results of elements of the first row.
  void store(std::size_t begin, std::size_t count, std::byte* output) {
    if (count == 0) return;
    reduce_buffers(
        nullptr, 0, count, last_, &output, 1,
        {.prefix = reinterpret_cast<const std::byte*>(rows_.get() + begin), .ranks = ranks_});
  }

  // Into the first row. Of what a round has combined, the result stands in the first rank's row.
  void combine(const std::vector<Range>& parts, bool sliced) {
    for (std::size_t distance = 1; distance < ranks_; distance *= 2) {
      dots_.clear();
      for_pairs(distance, parts, [&](const Acc* a, const Acc* b, std::size_t count) {
        dots_.push_back(dot_products(a, b, count));
      });
      if (sliced)
        communicator_.allreduce(dots_.data(), dots_.data(), 3 * dots_.size(),
                                {hvd::DataType::float64, hvd::ReduceOp::sum}, step_);
      const DotProducts* next = dots_.data();
      for_pairs(distance, parts, [&](Acc* a, const Acc* b, std::size_t count) {
        add_adaptively(a, b, count, *next++);
      });
    }
  }
  template <class Use>
  void for_pairs(std::size_t distance, const std::vector<Range>& parts, const Use& use) {
    for (std::size_t rank = 0; rank + distance < ranks_; rank += 2 * distance) {
      Acc* const a = rows_.get() + rank * row_size_;
      const Acc* const b = a + distance * row_size_;
      for (const Range& part : parts) use(a + part.begin, b + part.begin, part.end - part.begin);
    }
  }

  Communicator& communicator_;
  const std::size_t ranks_;
  const std::size_t rank_;
  const hvd::DataType type_;
  const std::size_t width_;
  const Reduction first_;
  const Reduction last_;
  const CallOptions& step_;
  std::unique_ptr<Acc[]> rows_;
  std::size_t room_ = 0;  // elements of all rows
  std::size_t row_size_ = 0;
  std::vector<DotProducts> dots_;
  std::vector<std::byte> results_;
};

template <class Acc>
void run_adasum(Communicator& communicator, const BufferRow& row,
                const std::vector<BufferPart>& tensors, const Reduction& reduction,
                const CallOptions& step) {
  const auto ranks = static_cast<std::size_t>(communicator.size());
  const std::vector<Batch> batches = batches_of(tensors, ranks, sizeof(Acc));
  Adasum<Acc> sum(communicator, reduction, step);
  if (is_small_of_all(row.count() * row.width(), ranks)) return sum.run_small(row, batches);
  for (const Batch& batch : batches) sum.run(row, batch);
}

// Not 0 for anything but one tensor and factors of 1.
std::uint32_t fingerprint_of(const std::vector<BufferPart>& tensors, std::size_t total,
                             const Reduction& reduction) {
  const std::uint32_t factors = scale_fingerprint(reduction);
  if (tensors.size() == 1) return factors;
  // Never all equal: no tensor has more elements than all have.
  std::vector<std::size_t> numbers;
  numbers.reserve(tensors.size() + 3);
  for (const BufferPart& tensor : tensors) numbers.push_back(tensor.count);
  numbers.insert(numbers.end(), {0, total + 1, factors});
  return counts_fingerprint(numbers.data(), numbers.size());
}

}  // namespace

void adasum(Communicator& communicator, const std::vector<BufferPart>& tensors,
            const Reduction& reduction, const CallOptions& options) {
  const DefaultFloatMode mode;
  const BufferRow row(tensors, element_size(reduction.type));
  // The steps are compared as what the caller called: nobody who calls the same step for itself
  // meets ours.
  const Descriptor what{.count = row.count(),
                        .kind = OpKind::allreduce,
                        .type = reduction.type,
                        .op = hvd::ReduceOp::adasum,
                        .detail = fingerprint_of(tensors, row.count(), reduction)};
  CallOptions step = options;
  if (step.step_of == nullptr) step.step_of = &what;
  if (communicator.size() == 1) {
    Reduction scale = reduction;
    scale.op = hvd::ReduceOp::sum;
    return communicator.grouped_allreduce(tensors, scale, step);
  }
  if (reduction.type == hvd::DataType::float64)
    run_adasum<double>(communicator, row, tensors, reduction, step);
  else
    run_adasum<float>(communicator, row, tensors, reduction, step);
}

}  // namespace hvdrun
