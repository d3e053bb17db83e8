// The ranks' words to each other on tensors with rows, and on what does not fit together.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <hvd/torch.h>

namespace hvdrun {

// A rank's words on its tensor; all int64, so that it travels as an array of them.
struct Rows {
  std::int64_t rows = 0;
  std::int64_t row_elements = 0;
  // Fingerprint of the dtype and all dimensions but the first, an odd number; or one of those
  // below.
  std::int64_t kind = kJoined;
  // The count of the rank's operations with handles and no name, which get one from it.
  std::int64_t number = 0;

  static constexpr std::int64_t kJoined = 0;  // (hvd::join): it brings no rows
  // This rank's call makes no sense. It says so rather than to let the others wait for it.
  static constexpr std::int64_t kWrong = 2;

  bool has_joined() const { return kind == kJoined; }
  bool is_wrong() const { return kind == kWrong; }
  bool fits(const Rows& other) const {
    return has_joined() ||
           (!is_wrong() && kind == other.kind && row_elements == other.row_elements);
  }
};
constexpr std::size_t kFields = 4;
static_assert(sizeof(Rows) == kFields * sizeof(std::int64_t));

// The fault of a tensor that no operation on rows can take; empty: it can. Throws for what differs
// between no ranks of one program, as its dtype.
std::string wrong_tensor(const char* what, const at::Tensor& tensor);
Rows rows_of(const char* what, const at::Tensor& tensor);
// For a tensor that may have no rows.
std::int64_t elements_of_row(const at::Tensor& tensor);

// A tensor's dtype and shape; and as many of its characters as travel, filled with zeros.
std::string words(const at::Tensor& tensor);
// The same with a star for the rows, which ranks may have different numbers of.
std::string words_of_rows(const at::Tensor& tensor);
using Said = std::array<char, 256>;
Said said(const std::string& text);
std::vector<std::string> texts_of(const std::vector<Said>& all);

// The words of the tensor's rank to the others when they do not fit: `words`, or what is wrong.
std::string words_or(const std::string& wrong, const std::string& words);
// Error(invalid_argument) of the rank whose call makes no sense.
[[noreturn]] void throw_wrong(const char* what, const std::string& wrong);

// Names the first rank and one that differs from it; empty texts are of ranks that have joined.
hvd::Error mismatch_of(const std::string& what, const std::vector<std::string>& all,
                       const hvd::OperationOptions& options);

// The manner of the reduction, as errors say it: ", average, prescale 0.5, fp16".
std::string manner_of(hvd::ReduceOp op, const hvd::ScaleFactors& scale = {},
                      hvd::Compression compression = hvd::Compression::none);
// The first step of an operation on rows: it has the operation's name, so that it meets whatever
// else another rank calls by that name. Ranks compare `what` (a group of one is no other operation)
// and `manner`; errors call it `what`, of this tensor and `more` others.
hvd::OperationOptions first_step(const char* what, const std::string& manner,
                                 const at::Tensor& tensor, std::size_t more,
                                 const hvd::OperationOptions& options);
// The second step, in which the rows travel: each rank has its own.
hvd::OperationOptions second_step(const hvd::OperationOptions& options, const at::Tensor& tensor);

at::Tensor empty_like_rows(const at::Tensor& tensor, std::int64_t rows);

// Average or sum; else Error(invalid_argument).
void check_sum(const char* what, hvd::ReduceOp op);

// The elements of each rank's rows of a tensor that is scattered.
std::vector<std::size_t> scattered_counts(const at::Tensor& tensor, std::size_t ranks);
std::int64_t scattered_rows(const at::Tensor& tensor, std::size_t ranks, std::size_t rank);

// This rank's words to the others on an alltoall, and what is wrong with the tensor or the splits,
// of which none are equal ones.
std::string rows_by_splits(const char* what, const at::Tensor& tensor,
                           std::vector<std::int64_t>& splits, std::vector<Rows>& told);

}  // namespace hvdrun
