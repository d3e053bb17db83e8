// Collectives on tensors whose first dimension counts rows, of which each rank may have its own
// number: everybody first says what it has, which also shows what does not fit together.
#include <algorithm>
#include <numeric>
#include <sstream>

#include <hvd/torch.h>

#include "worker/torch/tensor_types.h"

namespace hvdrun {
namespace {

// What a rank says of its tensor; all int64, so that it travels as an array of them.
struct Rows {
  std::int64_t rows = 0;
  std::int64_t row_elements = 0;
  // Fingerprint of the dtype and all dimensions but the first; 0 for a rank that has joined
  // (hvd::join), which brings no rows.
  std::int64_t kind = 0;

  bool has_joined() const { return kind == 0; }
  bool fits(const Rows& other) const {
    return has_joined() || (kind == other.kind && row_elements == other.row_elements);
  }
};
constexpr std::size_t kFields = 3;
static_assert(sizeof(Rows) == kFields * sizeof(std::int64_t));

Rows rows_of(const char* what, const at::Tensor& tensor) {
  check_tensor(what, tensor);
  if (tensor.dim() == 0)
    invalid_tensor(std::string(what) + ": a tensor without dimensions; reshape it to {1}");
  Rows rows;
  rows.rows = tensor.size(0);
  rows.row_elements = 1;
  std::uint64_t hash = static_cast<std::uint64_t>(tensor.scalar_type()) + 1;
  for (std::int64_t i = 1; i < tensor.dim(); ++i) {
    rows.row_elements *= tensor.size(i);
    hash = (hash ^ static_cast<std::uint64_t>(tensor.size(i))) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 29;
  }
  rows.kind = static_cast<std::int64_t>(hash | 1);
  return rows;
}

std::string words(const at::Tensor& tensor) {
  std::ostringstream text;
  text << at::toString(tensor.scalar_type()) << ' ' << tensor.sizes();
  return text.str();
}

[[noreturn]] void mismatch(const char* what, const std::vector<std::string>& all,
                           const hvd::OperationOptions& options) {
  // Nothing comes from ranks that have joined.
  std::size_t first = 0;
  while (first + 1 < all.size() && all[first].empty()) ++first;
  std::size_t other = first;
  while (other + 1 < all.size() && (all[other].empty() || all[other] == all[first])) ++other;
  const std::vector<int> ranks = hvd::process_set_ranks(options.process_set);
  std::string text = what;
  if (!options.name.empty()) text += " '" + options.name + "'";
  throw hvd::Error(hvd::ErrorCode::mismatch,
                   text + ": rank " + std::to_string(ranks[first]) + " has " + all[first] +
                       ", but rank " + std::to_string(ranks[other]) + " has " + all[other]);
}

// Only when somebody's do not fit: every rank sees that, so all of them come here.
[[noreturn]] void mismatch(const char* what, const at::Tensor& tensor,
                           const hvd::OperationOptions& options) {
  mismatch(what, hvd::allgather_object(words(tensor), part_of(options, "shapes")), options);
}

std::vector<Rows> everybodys(const char* what, const at::Tensor& tensor,
                             const hvd::OperationOptions& options) {
  const Rows mine = rows_of(what, tensor);
  std::vector<Rows> all(static_cast<std::size_t>(ranks_of(options)));
  hvd::allgather(&mine, all.data(), kFields, hvd::DataType::int64, part_of(options, "rows"));
  // Where two ranks' differ, everybody's differ from those of one of the two.
  for (const Rows& other : all)
    if (!other.fits(mine)) mismatch(what, tensor, options);
  return all;
}

// Each rank has rows of its own.
hvd::OperationOptions without_shape(const hvd::OperationOptions& options,
                                    const at::Tensor& tensor) {
  hvd::OperationOptions rows = placed(options, tensor);
  rows.shape.clear();
  return rows;
}

at::Tensor empty_like_rows(const at::Tensor& tensor, std::int64_t rows) {
  std::vector<std::int64_t> sizes = tensor.sizes().vec();
  sizes[0] = rows;
  return at::empty(sizes, tensor.options());
}

void check_sum(const char* what, hvd::ReduceOp op) {
  if (op != hvd::ReduceOp::average && op != hvd::ReduceOp::sum)
    invalid_tensor(std::string(what) + ": only average and sum");
}

// The rows that each rank sends and gets; throws for splits that make no sense, before anybody
// waits for them.
std::vector<std::int64_t> checked_splits(const at::Tensor& tensor,
                                         const std::vector<std::int64_t>& splits,
                                         std::int64_t ranks) {
  const std::int64_t rows = tensor.size(0);
  if (splits.empty()) {
    if (rows % ranks != 0)
      invalid_tensor("alltoall: " + std::to_string(rows) + " rows are not a multiple of " +
                     std::to_string(ranks) + " ranks; give splits");
    return std::vector<std::int64_t>(static_cast<std::size_t>(ranks), rows / ranks);
  }
  if (static_cast<std::int64_t>(splits.size()) != ranks)
    invalid_tensor("alltoall: " + std::to_string(splits.size()) + " splits for " +
                   std::to_string(ranks) + " ranks");
  std::int64_t left = rows;
  for (const std::int64_t split : splits) {
    if (split < 0) invalid_tensor("alltoall: a split of " + std::to_string(split) + " rows");
    if (split > left)
      invalid_tensor("alltoall: the splits add up to more than the " + std::to_string(rows) +
                     " rows of the tensor");
    left -= split;
  }
  return splits;
}

}  // namespace
}  // namespace hvdrun

namespace hvd {

at::Tensor allgather(const at::Tensor& tensor, const OperationOptions& options) {
  const at::NoGradGuard no_grad;
  const std::vector<hvdrun::Rows> all = hvdrun::everybodys("allgather", tensor, options);
  std::vector<std::size_t> counts;
  std::int64_t rows = 0;
  for (const hvdrun::Rows& rank : all) {
    counts.push_back(static_cast<std::size_t>(rank.rows * rank.row_elements));
    rows += rank.rows;
  }
  const at::Tensor input = tensor.contiguous();
  at::Tensor output = hvdrun::empty_like_rows(input, rows);
  allgatherv(input.data_ptr(), output.data_ptr(), counts.data(),
             hvdrun::check_tensor("allgather", input), hvdrun::without_shape(options, input));
  return output;
}

at::Tensor reducescatter(const at::Tensor& tensor, ReduceOp op, const ScaleFactors& scale,
                         const OperationOptions& options) {
  hvdrun::check_sum("reducescatter", op);
  const at::NoGradGuard no_grad;
  const std::vector<hvdrun::Rows> all = hvdrun::everybodys("reducescatter", tensor, options);
  for (const hvdrun::Rows& rank : all)
    if (!rank.has_joined() && rank.rows != tensor.size(0))
      hvdrun::mismatch("reducescatter", tensor, options);
  const auto ranks = static_cast<std::int64_t>(all.size());
  const auto rows_at = [&](std::int64_t rank) {
    return tensor.size(0) / ranks + (rank < tensor.size(0) % ranks ? 1 : 0);
  };
  const std::int64_t row_elements = tensor.numel() / std::max<std::int64_t>(tensor.size(0), 1);
  std::vector<std::size_t> counts(all.size());
  for (std::size_t rank = 0; rank < counts.size(); ++rank)
    counts[rank] =
        static_cast<std::size_t>(rows_at(static_cast<std::int64_t>(rank)) * row_elements);
  const at::Tensor input = tensor.contiguous();
  at::Tensor output = hvdrun::empty_like_rows(input, rows_at(hvdrun::place_in(options)));
  reducescatterv(input.data_ptr(), output.data_ptr(), counts.data(),
                 hvdrun::check_tensor("reducescatter", input), op, scale,
                 hvdrun::without_shape(options, input));
  return output;
}

AlltoallResult alltoall(const at::Tensor& tensor, const std::vector<std::int64_t>& splits,
                        const OperationOptions& options) {
  hvdrun::Rows mine = hvdrun::rows_of("alltoall", tensor);
  const at::NoGradGuard no_grad;
  const auto ranks = static_cast<std::size_t>(hvdrun::ranks_of(options));
  const std::vector<std::int64_t> sent =
      hvdrun::checked_splits(tensor, splits, static_cast<std::int64_t>(ranks));
  std::vector<hvdrun::Rows> told(ranks, mine);
  std::vector<hvdrun::Rows> heard(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) told[rank].rows = sent[rank];
  alltoall(told.data(), heard.data(), hvdrun::kFields, DataType::int64,
           hvdrun::part_of(options, "rows"));
  // When two ranks' tensors do not fit, everybody's differ from those of one of the two.
  for (const hvdrun::Rows& rank : heard)
    if (!rank.fits(mine)) hvdrun::mismatch("alltoall", tensor.slice(0, 0, 0), options);

  AlltoallResult result;
  std::vector<std::size_t> send_counts;
  std::vector<std::size_t> receive_counts;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    send_counts.push_back(static_cast<std::size_t>(sent[rank] * mine.row_elements));
    receive_counts.push_back(static_cast<std::size_t>(heard[rank].rows * mine.row_elements));
    result.received_splits.push_back(heard[rank].rows);
  }
  const at::Tensor input = tensor.contiguous();
  result.tensor = hvdrun::empty_like_rows(
      input, std::accumulate(result.received_splits.begin(), result.received_splits.end(),
                             std::int64_t{0}));
  alltoallv(input.data_ptr(), send_counts.data(), result.tensor.data_ptr(), receive_counts.data(),
            hvdrun::check_tensor("alltoall", input), hvdrun::without_shape(options, input));
  return result;
}

at::Tensor sparse_allreduce(const at::Tensor& tensor, ReduceOp op,
                            const OperationOptions& options) {
  hvdrun::check_sum("sparse_allreduce", op);
  if (!tensor.defined() || tensor.layout() != at::kSparse)
    hvdrun::invalid_tensor("sparse_allreduce: not a sparse COO tensor; to_sparse() makes one");
  const at::NoGradGuard no_grad;
  const at::Tensor mine = tensor.coalesce();
  const std::string shape =
      hvdrun::words(mine) + ", " + std::to_string(mine.sparse_dim()) + " sparse dimensions";
  const std::vector<std::string> shapes =
      allgather_object(shape, hvdrun::part_of(options, "shapes"));
  for (const std::string& other : shapes)
    if (!other.empty() && other != shape) hvdrun::mismatch("sparse_allreduce", shapes, options);
  // A row for each element.
  const at::Tensor indices =
      allgather(mine.indices().t().contiguous(), hvdrun::part_of(options, "indices"));
  const at::Tensor values = allgather(mine.values(), hvdrun::part_of(options, "values"));
  at::Tensor sum = at::sparse_coo_tensor(indices.t(), values, mine.sizes()).coalesce();
  if (op == ReduceOp::sum) return sum;
  // After the sum, of which integers are rounded once.
  const at::Tensor means =
      (sum.values() / static_cast<std::int64_t>(shapes.size())).to(values.scalar_type());
  return at::sparse_coo_tensor(sum.indices(), means, mine.sizes()).coalesce();
}

}  // namespace hvd
