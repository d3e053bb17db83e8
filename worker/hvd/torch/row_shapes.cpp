#include "worker/hvd/torch/row_shapes.h"

#include <algorithm>
#include <limits>
#include <sstream>
#include <string_view>

#include "worker/hvd/torch/tensor_types.h"

namespace hvdrun {

std::string wrong_tensor(const char* what, const at::Tensor& tensor) {
  check_tensor(what, tensor);
  return tensor.dim() == 0 ? "a tensor without dimensions; reshape it to {1}" : "";
}

Rows rows_of(const char* what, const at::Tensor& tensor) {
  Rows rows;
  if (!wrong_tensor(what, tensor).empty()) {
    rows.kind = Rows::kWrong;
    return rows;
  }
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

std::string manner_of(hvd::ReduceOp op, const hvd::ScaleFactors& scale,
                      hvd::Compression compression) {
  std::ostringstream text;
  text.precision(std::numeric_limits<double>::max_digits10);
  text << (op == hvd::ReduceOp::sum ? ", sum" : ", average");
  if (scale.prescale != 1) text << ", prescale " << scale.prescale;
  if (scale.postscale != 1) text << ", postscale " << scale.postscale;
  if (compression == hvd::Compression::fp16) text << ", fp16";
  if (compression == hvd::Compression::bf16) text << ", bf16";
  return text.str();
}

hvd::OperationOptions first_step(const char* what, const std::string& manner,
                                 const at::Tensor& tensor, std::size_t more,
                                 const hvd::OperationOptions& options) {
  hvd::OperationOptions step = on_host(options);
  step.description = std::string(what) + "(" + words(tensor);
  if (more > 0) step.description += " and " + std::to_string(more) + " more";
  step.description += manner + ")";
  // A shape is what ranks compare beside the buffers, which are the same for all such steps.
  constexpr std::string_view kGroup = "grouped_";
  std::string_view called = what;
  if (called.substr(0, kGroup.size()) == kGroup) called.remove_prefix(kGroup.size());
  step.shape.assign(called.begin(), called.end());
  step.shape.insert(step.shape.end(), manner.begin(), manner.end());
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

std::string words_or(const std::string& wrong, const std::string& words) {
  return wrong.empty() ? words : "(" + wrong + ")";
}

void throw_wrong(const char* what, const std::string& wrong) {
  invalid_tensor(std::string(what) + ": " + wrong);
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
  rows.varying_counts = true;
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

std::string wrong_splits(const at::Tensor& tensor, std::vector<std::int64_t>& splits,
                         std::int64_t ranks) {
  const std::int64_t rows = tensor.size(0);
  if (splits.empty()) {
    if (rows % ranks != 0)
      return std::to_string(rows) + " rows are not a multiple of " + std::to_string(ranks) +
             " ranks; give splits";
    splits.assign(static_cast<std::size_t>(ranks), rows / ranks);
    return {};
  }
  if (static_cast<std::int64_t>(splits.size()) != ranks)
    return std::to_string(splits.size()) + " splits for " + std::to_string(ranks) + " ranks";
  std::int64_t left = rows;
  for (const std::int64_t split : splits) {
    if (split < 0) return "a split of " + std::to_string(split) + " rows";
    if (split > left)
      return "the splits add up to more than the " + std::to_string(rows) + " rows of the tensor";
    left -= split;
  }
  return {};
}

std::string rows_by_splits(const char* what, const at::Tensor& tensor,
                           std::vector<std::int64_t>& splits, std::vector<Rows>& told) {
  std::string wrong = wrong_tensor(what, tensor);
  const auto ranks = static_cast<std::int64_t>(told.size());
  if (wrong.empty()) wrong = wrong_splits(tensor, splits, ranks);
  Rows rows = rows_of(what, tensor);
  if (!wrong.empty()) rows.kind = Rows::kWrong;
  for (std::size_t rank = 0; rank < told.size(); ++rank) {
    told[rank] = rows;
    told[rank].rows = wrong.empty() ? splits[rank] : 0;
  }
  return wrong;
}

}  // namespace hvdrun
