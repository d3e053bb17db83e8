// Operations on rows that go on while the program does something else: everybody's rows first, and,
// when those are known, what the tensors hold. Nobody has to ask for the second step: libhvd calls
// it when the first has ended (hvd::then), so ranks may wait in any order.
#include <atomic>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include <c10/core/StreamGuard.h>

#include "worker/hvd/torch/cuda_stream.h"
#include "worker/hvd/torch/differentiable.h"
#include "worker/hvd/torch/row_shapes.h"
#include "worker/hvd/torch/row_steps.h"
#include "worker/hvd/torch/tensor_handle.h"
#include "worker/hvd/torch/tensor_types.h"

namespace hvdrun {

namespace {

// As it was submitted: the steps run on threads of libhvd's, which have other streams.
struct RowPart {
  at::Tensor input;
  hvd::DataType type;
  hvd::OperationOptions options;  // of the second step
  std::optional<c10::Stream> stream;
  Rows rows;
};

struct RowJob {
  RowJob(const char* operation, const hvd::OperationOptions& given)
      : what(operation),
        options(given),
        ranks(static_cast<std::size_t>(ranks_of(given))),
        place(static_cast<std::size_t>(place_in(given))) {}

  const char* what;
  std::string manner;  // of first_step()
  std::string wrong;   // with this rank's call, beside its tensors
  hvd::OperationOptions options;
  std::size_t ranks;
  std::size_t place;
  std::vector<RowPart> parts;
  // The exchange: for each rank in turn, of each part.
  std::vector<Rows> told;
  std::vector<Rows> heard;
  Said own{};
  std::vector<Said> everybodys;
  bool same_rows = false;  // every rank must have as many
  // Submits one part, gives its output.
  std::function<hvd::Handle(const RowPart&, const std::vector<Rows>&, const hvd::OperationOptions&,
                            at::Tensor& output)>
      submit;
  std::shared_ptr<RowSteps> steps = std::make_shared<RowSteps>();

  Rows heard_of(std::size_t part, std::size_t rank) const {
    return heard[rank * parts.size() + part];
  }
};
using SharedRowJob = std::shared_ptr<RowJob>;

std::int64_t next_number() {
  static std::atomic<std::int64_t> numbers{0};
  return ++numbers;
}

// Operations without a name match in the order of their submission, which the second steps do not
// have. They get one that all ranks know from the first step: the number of the first rank's.
std::string name_of(const RowJob& job) {
  if (!job.options.name.empty()) return job.options.name;
  std::size_t first = 0;
  while (first + 1 < job.ranks && job.heard_of(0, first).has_joined()) ++first;
  return std::string(job.what) + ".noname." + std::to_string(first) + "." +
         std::to_string(job.heard_of(0, first).number);
}

RowPart row_part(const char* what, const at::Tensor& tensor, const hvd::OperationOptions& options,
                 std::int64_t number, hvd::Compression compression) {
  RowPart part;
  part.rows = rows_of(what, tensor);
  part.rows.number = number;
  const at::NoGradGuard no_grad;
  part.input = tensor.detach().to(wire_type(tensor.scalar_type(), compression)).contiguous();
  part.type = check_tensor(what, part.input);
  part.options = second_step(options, part.input);
  part.stream = current_stream(tensor);
  return part;
}

// A step may end on any thread, and its error is told by the handle.
void step_after(const std::shared_ptr<RowSteps>& steps, hvd::Handle before,
                std::function<void()> body) {
  hvd::then(before, [steps, before, body = std::move(body)] {
    try {
      hvd::synchronize(before);
      body();
    } catch (...) {
      steps->failed(std::current_exception());
    }
  });
}

// Ranks that see a difference all see it, in the same part.
void tell_mismatch(const SharedRowJob& job, std::size_t part) {
  const at::Tensor& tensor = job->parts[part].input;
  const bool is_alltoall = job->told.size() != job->parts.size();
  if (job->wrong.empty()) job->wrong = wrong_tensor(job->what, tensor);
  job->own = said(words_or(job->wrong, is_alltoall ? words_of_rows(tensor) : words(tensor)));
  job->everybodys.resize(job->ranks);
  hvd::OperationOptions named = job->options;
  named.name = name_of(*job);
  const hvd::Handle handle =
      hvd::allgather_async(job->own.data(), job->everybodys.data(), job->own.size(),
                           hvd::DataType::uint8, part_of(named, "shapes"));
  step_after(job->steps, handle, [job] {
    if (!job->wrong.empty()) throw_wrong(job->what, job->wrong);
    throw mismatch_of(job->what, texts_of(job->everybodys), job->options);
  });
}

bool fits(const RowJob& job, std::size_t part) {
  const Rows& mine = job.parts[part].rows;
  for (std::size_t rank = 0; rank < job.ranks; ++rank) {
    const Rows other = job.heard_of(part, rank);
    if (!other.fits(mine)) return false;
    if (job.same_rows && !other.has_joined() && other.rows != mine.rows) return false;
  }
  return true;
}

void submit_parts(const SharedRowJob& job) {
  for (std::size_t part = 0; part < job->parts.size(); ++part)
    if (!fits(*job, part)) return tell_mismatch(job, part);
  const std::string name = name_of(*job);
  const std::size_t parts = job->parts.size();
  std::vector<hvd::Handle> handles;
  job->steps->outputs.resize(parts);
  for (std::size_t i = 0; i < parts; ++i) {
    const RowPart& part = job->parts[i];
    job->steps->inputs.push_back(part.input);
    std::vector<Rows> rows;
    std::vector<std::int64_t> counted;
    for (std::size_t rank = 0; rank < job->ranks; ++rank) {
      rows.push_back(job->heard_of(i, rank));
      counted.push_back(rows.back().rows);
    }
    job->steps->rows_of_ranks.push_back(std::move(counted));
    hvd::OperationOptions options = part.options;
    if (parts > 1) {
      options.name = name + "_" + std::to_string(i + 1) + "of" + std::to_string(parts);
    } else if (options.name.empty()) {
      options.name = name;
    }
    const c10::OptionalStreamGuard guard(part.stream ? c10::optional<c10::Stream>(*part.stream)
                                                     : c10::nullopt);
    try {
      handles.push_back(job->submit(part, rows, options, job->steps->outputs[i]));
    } catch (...) {
      // Those before it are under way and have to be waited for.
      job->steps->failed(std::current_exception(), std::move(handles));
      return;
    }
  }
  job->steps->submitted(std::move(handles));
}

hvd::TensorHandle handle_of(const SharedRowJob& job, hvd::Handle first, std::size_t results) {
  auto state = std::make_shared<hvd::TensorHandle::State>();
  state->parts.resize(results);
  for (std::size_t i = 0; i < results; ++i) {
    state->parts[i].input = job->parts[i].input;
    state->parts[i].type = job->parts[i].input.scalar_type();
    state->parts[i].stream = job->parts[i].stream;
  }
  state->steps = job->steps;
  state->first_step = first;
  return hvd::TensorHandle(std::move(state));
}

hvd::TensorHandle exchange_rows(const SharedRowJob& job) {
  for (const RowPart& part : job->parts) job->told.push_back(part.rows);
  job->heard.resize(job->parts.size() * job->ranks);
  const hvd::Handle first = hvd::allgather_async(
      job->told.data(), job->heard.data(), job->told.size() * kFields, hvd::DataType::int64,
      first_step(job->what, job->manner, job->parts[0].input, job->parts.size() - 1, job->options));
  step_after(job->steps, first, [job] { submit_parts(job); });
  return handle_of(job, first, job->parts.size());
}

SharedRowJob job_of(const char* what, const std::vector<at::Tensor>& tensors,
                    const hvd::OperationOptions& options,
                    hvd::Compression compression = hvd::Compression::none) {
  auto job = std::make_shared<RowJob>(what, options);
  const std::int64_t number = next_number();
  for (const at::Tensor& tensor : tensors)
    job->parts.push_back(row_part(what, tensor, options, number, compression));
  return job;
}

hvd::Handle submit_gather(const RowPart& part, const std::vector<Rows>& all,
                          const hvd::OperationOptions& options, at::Tensor& output) {
  std::vector<std::size_t> counts;
  std::int64_t rows = 0;
  for (const Rows& rank : all) {
    counts.push_back(static_cast<std::size_t>(rank.rows * rank.row_elements));
    rows += rank.rows;
  }
  output = empty_like_rows(part.input, rows);
  return hvd::allgatherv_async(part.input.data_ptr(), output.data_ptr(), counts.data(), part.type,
                               options);
}

hvd::TensorHandle gather(const char* what, const std::vector<at::Tensor>& tensors,
                         const hvd::OperationOptions& options) {
  if (tensors.empty()) return hvd::TensorHandle(std::make_shared<hvd::TensorHandle::State>());
  const SharedRowJob job = job_of(what, tensors, options);
  job->submit = submit_gather;
  return exchange_rows(job);
}

hvd::TensorHandle scatter(const char* what, const std::vector<at::Tensor>& tensors,
                          hvd::ReduceOp op, const hvd::ScaleFactors& scale,
                          hvd::Compression compression, const hvd::OperationOptions& options) {
  check_sum(what, op);
  if (tensors.empty()) return hvd::TensorHandle(std::make_shared<hvd::TensorHandle::State>());
  const SharedRowJob job = job_of(what, tensors, options, compression);
  job->same_rows = true;
  job->manner = manner_of(op, scale, compression);
  std::vector<at::ScalarType> types;
  types.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) types.push_back(tensor.scalar_type());
  job->steps->finish = [types](std::vector<at::Tensor> outputs) {
    for (std::size_t i = 0; i < outputs.size(); ++i) outputs[i] = outputs[i].to(types[i]);
    return outputs;
  };
  job->submit = [op, scale, place = job->place](const RowPart& part, const std::vector<Rows>& all,
                                                const hvd::OperationOptions& named,
                                                at::Tensor& output) {
    output = empty_like_rows(part.input, scattered_rows(part.input, all.size(), place));
    return hvd::reducescatterv_async(part.input.data_ptr(), output.data_ptr(),
                                     scattered_counts(part.input, all.size()).data(), part.type, op,
                                     scale, named);
  };
  return exchange_rows(job);
}

// A rank's words on its sparse tensor: as many elements, in these words.
struct SparseRows {
  Rows rows;
  Said text{};
};

}  // namespace

}  // namespace hvdrun

namespace hvd {

TensorHandle allgather_async(const at::Tensor& tensor, const OperationOptions& options) {
  return hvdrun::gather("allgather", {tensor}, options);
}

TensorHandle grouped_allgather_async(const std::vector<at::Tensor>& tensors,
                                     const OperationOptions& options) {
  return hvdrun::gather("grouped_allgather", tensors, options);
}

std::vector<at::Tensor> grouped_allgather(const std::vector<at::Tensor>& tensors,
                                          const OperationOptions& options) {
  const TensorHandle handle = grouped_allgather_async(tensors, options);
  std::vector<at::Tensor> outputs = synchronize_all(handle);
  if (!hvdrun::needs_gradient(tensors)) return outputs;
  hvdrun::set_backward("grouped_allgather", tensors, outputs,
                       [options, rows = handle.state().steps->rows_of_ranks](
                           const std::vector<at::Tensor>& gradients) {
                         const OperationOptions back = hvdrun::backward_options(options);
                         std::vector<at::Tensor> own;
                         own.reserve(gradients.size());
                         for (std::size_t i = 0; i < gradients.size(); ++i)
                           own.push_back(hvdrun::sum_of_own_rows(gradients[i], rows[i], back));
                         return own;
                       });
  return outputs;
}

TensorHandle reducescatter_async(const at::Tensor& tensor, ReduceOp op, const ScaleFactors& scale,
                                 Compression compression, const OperationOptions& options) {
  return hvdrun::scatter("reducescatter", {tensor}, op, scale, compression, options);
}

TensorHandle grouped_reducescatter_async(const std::vector<at::Tensor>& tensors, ReduceOp op,
                                         const ScaleFactors& scale, Compression compression,
                                         const OperationOptions& options) {
  return hvdrun::scatter("grouped_reducescatter", tensors, op, scale, compression, options);
}

std::vector<at::Tensor> grouped_reducescatter(const std::vector<at::Tensor>& tensors, ReduceOp op,
                                              const ScaleFactors& scale, Compression compression,
                                              const OperationOptions& options) {
  std::vector<at::Tensor> outputs =
      synchronize_all(grouped_reducescatter_async(tensors, op, scale, compression, options));
  if (!hvdrun::needs_gradient(tensors)) return outputs;
  const double factor = hvdrun::scattered_factor(op, scale, options);
  std::vector<std::int64_t> rows;
  rows.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) rows.push_back(tensor.size(0));
  hvdrun::set_backward("grouped_reducescatter", tensors, outputs,
                       [options, factor, rows](const std::vector<at::Tensor>& gradients) {
                         std::vector<at::Tensor> all = hvdrun::gathered_gradients(
                             gradients, rows, hvdrun::backward_options(options));
                         for (at::Tensor& one : all) one = one * factor;
                         return all;
                       });
  return outputs;
}

TensorHandle alltoall_async(const at::Tensor& tensor, const std::vector<std::int64_t>& splits,
                            const OperationOptions& options) {
  const hvdrun::SharedRowJob job = hvdrun::job_of("alltoall", {tensor}, options);
  std::vector<std::int64_t> sent = splits;
  job->told.resize(job->ranks);
  job->wrong = hvdrun::rows_by_splits("alltoall", tensor, sent, job->told);
  for (hvdrun::Rows& rank : job->told) rank.number = job->parts[0].rows.number;
  job->parts[0].rows.kind = job->told[0].kind;
  job->heard.resize(job->ranks);
  hvdrun::RowSteps* const steps = job->steps.get();  // lives as long as the job
  job->submit = [sent, steps](const hvdrun::RowPart& part, const std::vector<hvdrun::Rows>& all,
                              const OperationOptions& named, at::Tensor& output) {
    std::vector<std::size_t> sends;
    std::vector<std::size_t> receives;
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      sends.push_back(static_cast<std::size_t>(sent[rank] * part.rows.row_elements));
      receives.push_back(static_cast<std::size_t>(all[rank].rows * part.rows.row_elements));
      steps->received_splits.push_back(all[rank].rows);
    }
    output = hvdrun::empty_like_rows(
        part.input, std::accumulate(steps->received_splits.begin(), steps->received_splits.end(),
                                    std::int64_t{0}));
    return alltoallv_async(part.input.data_ptr(), sends.data(), output.data_ptr(), receives.data(),
                           part.type, named);
  };
  const Handle first =
      alltoall_async(job->told.data(), job->heard.data(), hvdrun::kFields, DataType::int64,
                     hvdrun::first_step("alltoall", "", tensor, 0, options));
  hvdrun::step_after(job->steps, first, [job] { hvdrun::submit_parts(job); });
  return hvdrun::handle_of(job, first, 1);
}

TensorHandle sparse_allreduce_async(const at::Tensor& tensor, ReduceOp op,
                                    const OperationOptions& options) {
  hvdrun::check_sum("sparse_allreduce", op);
  if (!tensor.defined() || tensor.layout() != at::kSparse)
    hvdrun::invalid_tensor("sparse_allreduce: not a sparse COO tensor; to_sparse() makes one");
  const at::NoGradGuard no_grad;
  const at::Tensor mine = tensor.detach().coalesce();
  // A row for each element.
  const hvdrun::SharedRowJob job =
      hvdrun::job_of("sparse_allreduce", {mine.values(), mine.indices().t().contiguous()}, options);
  struct Exchange {
    hvdrun::SparseRows told;
    std::vector<hvdrun::SparseRows> heard;
  };
  const auto exchange = std::make_shared<Exchange>();
  exchange->told = {job->parts[0].rows,
                    hvdrun::said(hvdrun::words(mine) + ", " + std::to_string(mine.sparse_dim()) +
                                 " sparse dimensions")};
  exchange->heard.resize(job->ranks);
  job->submit = hvdrun::submit_gather;
  job->steps->finish = [sizes = mine.sizes().vec(), op,
                        ranks = static_cast<std::int64_t>(job->ranks)](
                           const std::vector<at::Tensor>& outputs) {
    const at::Tensor& values = outputs[0];
    at::Tensor sum = at::sparse_coo_tensor(outputs[1].t(), values, sizes).coalesce();
    if (op == ReduceOp::sum) return std::vector<at::Tensor>{sum};
    // After the sum, of which integers are rounded once.
    const at::Tensor means = (sum.values() / ranks).to(values.scalar_type());
    return std::vector<at::Tensor>{at::sparse_coo_tensor(sum.indices(), means, sizes).coalesce()};
  };
  const Handle first = allgather_async(
      &exchange->told, exchange->heard.data(), sizeof(hvdrun::SparseRows), DataType::uint8,
      hvdrun::first_step("sparse_allreduce", hvdrun::manner_of(op), mine, 0, options));
  hvdrun::step_after(job->steps, first, [job, exchange] {
    std::vector<hvdrun::Said> texts;
    for (const hvdrun::SparseRows& rank : exchange->heard) {
      texts.push_back(rank.text);
      job->heard.push_back(rank.rows);
      // The rows of the indices.
      job->heard.push_back(rank.rows);
      job->heard.back().kind = rank.rows.has_joined() ? 0 : job->parts[1].rows.kind;
      job->heard.back().row_elements = rank.rows.has_joined() ? 0 : job->parts[1].rows.row_elements;
    }
    for (const hvdrun::SparseRows& rank : exchange->heard)
      if (!rank.rows.has_joined() && rank.text != exchange->told.text)
        throw hvdrun::mismatch_of(job->what, hvdrun::texts_of(texts), job->options);
    hvdrun::submit_parts(job);
  });
  return hvdrun::handle_of(job, first, 1);
}

AlltoallResult synchronize_alltoall(const TensorHandle& handle) {
  const auto steps = handle.state().steps;
  AlltoallResult result;
  result.tensor = synchronize(handle);
  if (steps) result.received_splits = steps->received_splits;
  return result;
}

}  // namespace hvd
