#include "worker/hvd/comm/hosts/hosts_communicator.h"

#include <utility>

#include "worker/hvd/comm/hosts/hosts_move.h"
#include "worker/hvd/comm/hosts/hosts_operation.h"
#include "worker/hvd/comm/hosts/hosts_reduce.h"

namespace hvdrun {
namespace {

const std::byte* bytes_of(const void* data) { return static_cast<const std::byte*>(data); }
std::byte* bytes_of(void* data) { return static_cast<std::byte*>(data); }

class HostsCommunicator final : public Communicator {
 public:
  HostsCommunicator(HostsContext hosts, const CallOptions& options)
      : op_(std::move(hosts), options), reduce_(op_), move_(op_) {}

  int rank() const override { return static_cast<int>(op_.rank()); }
  int size() const override { return static_cast<int>(op_.layout().size()); }

  void allreduce(const void* input, void* output, std::size_t count, const Reduction& reduction,
                 const CallOptions& options) override {
    const BufferRow row({input, output, count}, element_size(reduction.type));
    allreduce_row(row, reduction, options);
  }
  void grouped_allreduce(const std::vector<BufferPart>& parts, const Reduction& reduction,
                         const CallOptions& options) override {
    allreduce_row({parts, element_size(reduction.type)}, reduction, options);
  }
  void broadcast(void* data, std::size_t count, hvd::DataType type, int root,
                 const CallOptions& options) override {
    const Descriptor what{.count = count,
                          .kind = OpKind::broadcast,
                          .type = type,
                          .detail = static_cast<std::uint32_t>(root)};
    op_.run(what, options, [&](const CallOptions& step) {
      move_.broadcast(bytes_of(data), count * element_size(type), static_cast<std::size_t>(root),
                      step);
    });
  }
  void allgather(const void* input, void* output, const std::size_t* counts, hvd::DataType type,
                 const CallOptions& options) override {
    const Descriptor what{.count = sum_of(counts, op_.layout().size()),
                          .kind = OpKind::allgather,
                          .type = type,
                          .detail = counts_fingerprint(counts, op_.layout().size())};
    op_.run(what, options, [&](const CallOptions& step) {
      move_.allgather(bytes_of(input), bytes_of(output), counts, type, step);
    });
  }
  void reducescatter(const void* input, void* output, const std::size_t* counts,
                     const Reduction& reduction, const CallOptions& options) override {
    const Descriptor what{
        .count = sum_of(counts, op_.layout().size()),
        .kind = OpKind::reducescatter,
        .type = reduction.type,
        .op = reduction.op,
        .detail = joint_fingerprint(counts_fingerprint(counts, op_.layout().size()),
                                    scale_fingerprint(reduction))};
    op_.run(what, options, [&](const CallOptions& step) {
      reduce_.to_part(bytes_of(input), bytes_of(output), what.count, sum_of(counts, op_.rank()),
                      counts[op_.rank()], reduction, step);
    });
  }
  void alltoall(const void* input, const std::size_t* send_counts, void* output,
                const std::size_t* receive_counts, hvd::DataType type,
                const CallOptions& options) override {
    const BufferRow row({input, nullptr, sum_of(send_counts, op_.layout().size())},
                        element_size(type));
    alltoall_from(row, 0, send_counts, output, receive_counts, type, options);
  }
  void alltoall_from(const BufferRow& row, std::size_t begin, const std::size_t* send_counts,
                     void* output, const std::size_t* receive_counts, hvd::DataType type,
                     const CallOptions& options) override {
    op_.run(Descriptor{.kind = OpKind::alltoall, .type = type}, options,
            [&](const CallOptions& step) {
              move_.alltoall(row, begin, send_counts, bytes_of(output), receive_counts, type, step);
            });
  }
  void barrier(const CallOptions& options) override {
    op_.run(Descriptor{.kind = OpKind::barrier}, options, [&](const CallOptions& step) {
      op_.agree();
      op_.local().barrier(step);
    });
  }

  void abort(const hvd::Error& reason) override { op_.abort(reason); }
  void peer_gone(int rank, const hvd::Error& reason) override {
    if (rank >= 0) op_.peer_gone(static_cast<std::size_t>(rank), reason);
  }
  bool await_others(std::chrono::milliseconds limit) override { return op_.await_others(limit); }
  void wake() override { op_.wake(); }

 private:
  void allreduce_row(const BufferRow& row, const Reduction& reduction, const CallOptions& options) {
    const Descriptor what{.count = row.count(),
                          .kind = OpKind::allreduce,
                          .type = reduction.type,
                          .op = reduction.op,
                          .detail = scale_fingerprint(reduction)};
    op_.run(what, options, [&](const CallOptions& step) { reduce_.to_all(row, reduction, step); });
  }

  HostsOperation op_;
  HostsReduce reduce_;
  HostsMove move_;
};

}  // namespace

std::unique_ptr<Communicator> make_hosts_communicator(HostsContext hosts,
                                                      const CallOptions& options) {
  return std::make_unique<HostsCommunicator>(std::move(hosts), options);
}

}  // namespace hvdrun
