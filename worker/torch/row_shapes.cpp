#include "worker/torch/row_shapes.h"

#include <algorithm>
#include <sstream>

#include "worker/torch/tensor_types.h"

namespace hvdrun {

Rows rows_of(const char* what, const at::Tensor& tensor) {
  check_tensor(what, tensor);
  if (tensor.dim() == 0)
    invalid_tensor(std::string(what) + ": a tensor without dimensions; reshape it to {1}");
  Rows rows;
  rows.rows = tensor.size(0);
  rows.row_elements = elements_of_row(tensor);
  std::uint64_t hash = static_cast<std::uint64_t>(tensor.scalar_type()) + 1;
  for (std::int64_t i = 1; i < tensor.dim(); ++i) {
    hash = (hash ^ static_cast<std::uint64_t>(tensor.size(i))) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 29;
  }
  rows.kind = static_cast<std::int64_t>(hash | 1);
  return rows;
}

std::int64_t elements_of_row(const at::Tensor& tensor) {
  std::int64_t elements = 1;
  for (std::int64_t i = 1; i < tensor.dim(); ++i) elements *= tensor.size(i);
  return elements;
}

std::string words(const at::Tensor& tensor) {
  std::ostringstream text;
  text << at::toString(tensor.scalar_type()) << ' ' << tensor.sizes();
  return text.str();
}

std::string words_of_rows(const at::Tensor& tensor) {
  std::ostringstream text;
  text << at::toString(tensor.scalar_type()) << " [*";
  for (std::int64_t i = 1; i < tensor.dim(); ++i) text << ", " << tensor.size(i);
  text << ']';
  return text.str();
}

hvd::OperationOptions first_step(const char* what, const at::Tensor& tensor, std::size_t more,
                                 const hvd::OperationOptions& options) {
  hvd::OperationOptions step = options;
  step.shape.clear();
  step.device = hvd::Device::cpu;
  step.stream = nullptr;
  step.description = std::string(what) + "(" + words(tensor);
  if (more > 0) step.description += " and " + std::to_string(more) + " more";
  step.description += ")";
  return step;
}

Said said(const std::string& text) {
  Said all{};
  std::copy_n(text.begin(), std::min(text.size(), all.size() - 1), all.begin());
  return all;
}

std::vector<std::string> texts_of(const std::vector<Said>& all) {
  std::vector<std::string> texts;
  texts.reserve(all.size());
  for (const Said& one : all)
    texts.emplace_back(one.begin(), std::find(one.begin(), one.end(), '\0'));
  return texts;
}

hvd::Error mismatch_of(const std::string& what, const std::vector<std::string>& all,
                       const hvd::OperationOptions& options) {
  // Nothing comes from ranks that have joined.
  std::size_t first = 0;
  while (first + 1 < all.size() && all[first].empty()) ++first;
  std::size_t other = first;
  while (other + 1 < all.size() && (all[other].empty() || all[other] == all[first])) ++other;
  const std::vector<int> ranks = hvd::process_set_ranks(options.process_set);
  std::string text = what;
  if (!options.name.empty()) text += " '" + options.name + "'";
  return {hvd::ErrorCode::mismatch, text + ": rank " + std::to_string(ranks[first]) + " has " +
                                        all[first] + ", but rank " + std::to_string(ranks[other]) +
                                        " has " + all[other]};
}

hvd::OperationOptions second_step(const hvd::OperationOptions& options, const at::Tensor& tensor) {
  hvd::OperationOptions rows = placed(options, tensor);
  rows.shape.clear();
  if (!rows.name.empty()) rows.name += ".data";
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

std::int64_t scattered_rows(const at::Tensor& tensor, std::size_t ranks, std::size_t rank) {
  const auto all = static_cast<std::int64_t>(ranks);
  return tensor.size(0) / all + (static_cast<std::int64_t>(rank) < tensor.size(0) % all ? 1 : 0);
}

std::vector<std::size_t> scattered_counts(const at::Tensor& tensor, std::size_t ranks) {
  const std::int64_t row_elements = tensor.numel() / std::max<std::int64_t>(tensor.size(0), 1);
  std::vector<std::size_t> counts(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank)
    counts[rank] = static_cast<std::size_t>(scattered_rows(tensor, ranks, rank) * row_elements);
  return counts;
}

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

}  // namespace hvdrun
