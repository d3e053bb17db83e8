// Collectives on tensors whose first dimension counts rows, of which each rank may have its own
// number: everybody first says what it has, which also shows what does not fit together.
#include <numeric>

#include <hvd/torch.h>

#include "worker/hvd/torch/differentiable.h"
#include "worker/hvd/torch/row_shapes.h"
#include "worker/hvd/torch/row_steps.h"
#include "worker/hvd/torch/tensor_types.h"

namespace hvdrun {
namespace {

// Only when somebody's do not fit: every rank sees that, so all of them come here.
[[noreturn]] void mismatch(const char* what, const std::string& wrong, const std::string& text,
                           const hvd::OperationOptions& options) {
  const Said mine = said(words_or(wrong, text));
  std::vector<Said> all(static_cast<std::size_t>(ranks_of(options)));
  hvd::allgather(mine.data(), all.data(), mine.size(), hvd::DataType::uint8,
                 part_of(options, "shapes"));
  if (!wrong.empty()) throw_wrong(what, wrong);
  throw mismatch_of(what, texts_of(all), options);
}

std::vector<Rows> everybodys(const char* what, const std::string& manner, const at::Tensor& tensor,
                             const hvd::OperationOptions& options) {
  const Rows mine = rows_of(what, tensor);
  std::vector<Rows> all(static_cast<std::size_t>(ranks_of(options)));
  hvd::allgather(&mine, all.data(), kFields, hvd::DataType::int64,
                 first_step(what, manner, tensor, 0, options));
  // Where two ranks' differ, everybody's differ from those of one of the two.
  for (const Rows& other : all)
    if (!other.fits(mine)) mismatch(what, wrong_tensor(what, tensor), words(tensor), options);
  return all;
}

}  // namespace
}  // namespace hvdrun

namespace hvd {

at::Tensor allgather(const at::Tensor& tensor, const OperationOptions& options) {
  const bool goes_back = hvdrun::needs_gradient({tensor});
  const at::NoGradGuard no_grad;
  const std::vector<hvdrun::Rows> all = hvdrun::everybodys("allgather", "", tensor, options);
  std::vector<std::size_t> counts;
  std::int64_t rows = 0;
  for (const hvdrun::Rows& rank : all) {
    counts.push_back(static_cast<std::size_t>(rank.rows * rank.row_elements));
    rows += rank.rows;
  }
  const at::Tensor input = tensor.contiguous();
  at::Tensor output = hvdrun::empty_like_rows(input, rows);
  allgatherv(input.data_ptr(), output.data_ptr(), counts.data(),
             hvdrun::check_tensor("allgather", input), hvdrun::second_step(options, input));
  if (goes_back) {
    std::vector<std::int64_t> rows_of_ranks;
    rows_of_ranks.reserve(all.size());
    for (const hvdrun::Rows& rank : all) rows_of_ranks.push_back(rank.rows);
    hvdrun::set_backward("allgather", tensor, output, [=](const at::Tensor& gradient) {
      return hvdrun::sum_of_own_rows(gradient, rows_of_ranks, hvdrun::backward_options(options));
    });
  }
  return output;
}

at::Tensor reducescatter(const at::Tensor& tensor, ReduceOp op, const ScaleFactors& scale,
                         Compression compression, const OperationOptions& options) {
  hvdrun::check_sum("reducescatter", op);
  const bool goes_back = hvdrun::needs_gradient({tensor});
  const at::NoGradGuard no_grad;
  const std::vector<hvdrun::Rows> all = hvdrun::everybodys(
      "reducescatter", hvdrun::manner_of(op, scale, compression), tensor, options);
  for (const hvdrun::Rows& rank : all)
    if (!rank.has_joined() && rank.rows != tensor.size(0))
      hvdrun::mismatch("reducescatter", "", hvdrun::words(tensor), options);
  const std::vector<std::size_t> counts = hvdrun::scattered_counts(tensor, all.size());
  const at::Tensor input =
      tensor.to(hvdrun::wire_type(tensor.scalar_type(), compression)).contiguous();
  at::Tensor output = hvdrun::empty_like_rows(
      input, hvdrun::scattered_rows(tensor, all.size(),
                                    static_cast<std::size_t>(hvdrun::place_in(options))));
  reducescatterv(input.data_ptr(), output.data_ptr(), counts.data(),
                 hvdrun::check_tensor("reducescatter", input), op, scale,
                 hvdrun::second_step(options, input));
  output = output.to(tensor.scalar_type());
  if (goes_back) {
    const double factor = hvdrun::scattered_factor(op, scale, options);
    const std::int64_t rows = tensor.size(0);
    hvdrun::set_backward("reducescatter", tensor, output, [=](const at::Tensor& gradient) {
      return hvdrun::gathered_gradients({gradient}, {rows}, hvdrun::backward_options(options))[0] *
             factor;
    });
  }
  return output;
}

AlltoallResult alltoall(const at::Tensor& tensor, const std::vector<std::int64_t>& splits,
                        const OperationOptions& options) {
  const bool goes_back = hvdrun::needs_gradient({tensor});
  const at::NoGradGuard no_grad;
  const auto ranks = static_cast<std::size_t>(hvdrun::ranks_of(options));
  std::vector<std::int64_t> sent = splits;
  std::vector<hvdrun::Rows> told(ranks);
  std::vector<hvdrun::Rows> heard(ranks);
  const std::string wrong = hvdrun::rows_by_splits("alltoall", tensor, sent, told);
  alltoall(told.data(), heard.data(), hvdrun::kFields, DataType::int64,
           hvdrun::first_step("alltoall", "", tensor, 0, options));
  // When two ranks' tensors do not fit, everybody's differ from those of one of the two.
  for (const hvdrun::Rows& rank : heard)
    if (!rank.fits(told[0]))
      hvdrun::mismatch("alltoall", wrong, hvdrun::words_of_rows(tensor), options);

  AlltoallResult result;
  std::vector<std::size_t> send_counts;
  std::vector<std::size_t> receive_counts;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    send_counts.push_back(static_cast<std::size_t>(sent[rank] * told[rank].row_elements));
    receive_counts.push_back(static_cast<std::size_t>(heard[rank].rows * told[rank].row_elements));
    result.received_splits.push_back(heard[rank].rows);
  }
  const at::Tensor input = tensor.contiguous();
  result.tensor = hvdrun::empty_like_rows(
      input, std::accumulate(result.received_splits.begin(), result.received_splits.end(),
                             std::int64_t{0}));
  alltoallv(input.data_ptr(), send_counts.data(), result.tensor.data_ptr(), receive_counts.data(),
            hvdrun::check_tensor("alltoall", input), hvdrun::second_step(options, input));
  if (goes_back) {
    hvdrun::set_backward("alltoall", tensor, result.tensor,
                         [options, rows = tensor.size(0), sent,
                          received = result.received_splits](const at::Tensor& gradient) {
                           const AlltoallResult back =
                               alltoall(gradient, received, hvdrun::backward_options(options));
                           if (back.tensor.size(0) == rows) return back.tensor;
                           // A rank that has joined gives nothing back for what it was sent.
                           at::Tensor whole = hvdrun::empty_like_rows(back.tensor, rows).zero_();
                           std::int64_t from = 0;
                           std::int64_t to = 0;
                           for (std::size_t rank = 0; rank < sent.size(); ++rank) {
                             const std::int64_t came = back.received_splits[rank];
                             whole.narrow(0, to, came).copy_(back.tensor.narrow(0, from, came));
                             from += came;
                             to += sent[rank];
                           }
                           return whole;
                         });
  }
  return result;
}

at::Tensor sparse_allreduce(const at::Tensor& tensor, ReduceOp op,
                            const OperationOptions& options) {
  return synchronize(sparse_allreduce_async(tensor, op, options));
}

}  // namespace hvd
