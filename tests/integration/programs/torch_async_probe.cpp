// Operations on rows with handles, on every rank of a real job: many under way at once, submitted
// and waited for in an order of each rank's own, against what each rank can compute by itself. The
// first difference ends the rank with its words and exit code 1. Takes a seed and a number of
// rounds.
#include <algorithm>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include <hvd/torch.h>

#include "tests/integration/helpers/probe_checks.h"
#include "tests/integration/programs/torch_probes.h"

namespace hvdrun::test::async_probe {
namespace {

using torch::Tensor;

enum class Kind { gather, scatter, exchange, sparse, gathers, scatters, sum, count };

// One operation, the same on all ranks.
struct Task {
  Kind kind;
  unsigned seed;
  std::string name;

  hvd::OperationOptions options() const { return {name, {}, {}}; }
  unsigned draw(int rank, unsigned what, unsigned below) const {
    std::minstd_rand random(seed * 977 + static_cast<unsigned>(rank) * 31 + what);
    random.discard(3);
    return static_cast<unsigned>(random()) % below;
  }
  // Whole numbers, whose sums are exact; no rows at all at times.
  Tensor rows(int rank, unsigned part, std::int64_t count) const {
    return torch::arange(count * 3, torch::kFloat).view({count, 3}) +
           static_cast<int>(draw(rank, 7 + part, 50));
  }
  Tensor own_rows(int rank, unsigned part) const { return rows(rank, part, draw(rank, part, 4)); }
  Tensor same_rows(int rank, unsigned part) const { return rows(rank, part, draw(0, part, 7)); }
  std::vector<std::int64_t> splits(int rank) const {
    std::vector<std::int64_t> all;
    for (int peer = 0; peer < hvd::size(); ++peer)
      all.push_back(draw(rank, 100 + static_cast<unsigned>(peer), 3));
    return all;
  }
  Tensor sent(int rank) const {
    std::int64_t count = 1;  // goes nowhere
    for (const std::int64_t split : splits(rank)) count += split;
    return rows(rank, 0, count);
  }
  Tensor sparse(int rank) const {
    Tensor dense = torch::zeros({4, 5});
    for (unsigned i = 0; i < draw(rank, 1, 4); ++i)
      dense[draw(rank, 20 + i, 4)][draw(rank, 30 + i, 5)] = static_cast<float>(i + 1);
    return dense.to_sparse();
  }

  hvd::TensorHandle submit() const {
    const int rank = hvd::rank();
    const auto sum = hvd::ReduceOp::sum;
    switch (kind) {
      case Kind::gather:
        return hvd::allgather_async(own_rows(rank, 0), options());
      case Kind::scatter:
        return hvd::reducescatter_async(same_rows(rank, 0), sum, {}, hvd::Compression::none,
                                        options());
      case Kind::exchange:
        return hvd::alltoall_async(sent(rank), splits(rank), options());
      case Kind::sparse:
        return hvd::sparse_allreduce_async(sparse(rank), sum, options());
      case Kind::gathers:
        return hvd::grouped_allgather_async({own_rows(rank, 0), own_rows(rank, 1)}, options());
      case Kind::scatters:
        return hvd::grouped_reducescatter_async({same_rows(rank, 0), same_rows(rank, 1)}, sum, {},
                                                hvd::Compression::none, options());
      default:
        return hvd::allreduce_async(same_rows(rank, 0), sum, {}, hvd::Compression::none, options());
    }
  }

  Tensor sum_of(unsigned part) const {
    Tensor sum = torch::zeros_like(same_rows(0, part));
    for (int rank = 0; rank < hvd::size(); ++rank) sum += same_rows(rank, part);
    return sum;
  }
  Tensor gathered(unsigned part) const {
    std::vector<Tensor> all;
    for (int rank = 0; rank < hvd::size(); ++rank) all.push_back(own_rows(rank, part));
    return torch::cat(all);
  }
  Tensor scattered(unsigned part) const {
    const Tensor sum = sum_of(part);
    const std::int64_t each = sum.size(0) / hvd::size();
    const std::int64_t more = sum.size(0) % hvd::size();
    const std::int64_t rank = hvd::rank();
    return sum.narrow(0, each * rank + std::min(rank, more), each + (rank < more ? 1 : 0));
  }

  std::vector<Tensor> expected() const {
    switch (kind) {
      case Kind::gather:
        return {gathered(0)};
      case Kind::gathers:
        return {gathered(0), gathered(1)};
      case Kind::scatter:
        return {scattered(0)};
      case Kind::scatters:
        return {scattered(0), scattered(1)};
      case Kind::exchange: {
        std::vector<Tensor> all;
        for (int rank = 0; rank < hvd::size(); ++rank) {
          const std::vector<std::int64_t> parts = splits(rank);
          std::int64_t begin = 0;
          for (int peer = 0; peer < hvd::rank(); ++peer)
            begin += parts[static_cast<std::size_t>(peer)];
          all.push_back(sent(rank).narrow(0, begin, parts[static_cast<std::size_t>(hvd::rank())]));
        }
        return {torch::cat(all)};
      }
      case Kind::sparse: {
        Tensor sum = torch::zeros({4, 5});
        for (int rank = 0; rank < hvd::size(); ++rank) sum += sparse(rank).to_dense();
        return {sum};
      }
      default:
        return {sum_of(0)};
    }
  }

  void check(const hvd::TensorHandle& handle) const {
    std::vector<Tensor> got;
    if (kind == Kind::exchange) {
      const hvd::AlltoallResult result = hvd::synchronize_alltoall(handle);
      std::vector<std::int64_t> received;
      for (int rank = 0; rank < hvd::size(); ++rank)
        received.push_back(splits(rank)[static_cast<std::size_t>(hvd::rank())]);
      expect(result.received_splits == received, text() + ": received splits");
      got.push_back(result.tensor);
    } else {
      got = hvd::synchronize_all(handle);
    }
    const std::vector<Tensor> wanted = expected();
    expect(got.size() == wanted.size(), text() + ": number of results");
    for (std::size_t i = 0; i < got.size(); ++i)
      expect((got[i].is_sparse() ? got[i].to_dense() : got[i]).equal(wanted[i]), text());
  }
  std::string text() const {
    return "operation '" + name + "' of kind " + std::to_string(static_cast<int>(kind));
  }
};

void check_random_orders(unsigned seed, int rounds, int tasks) {
  std::mt19937 common(seed);
  std::mt19937 own(seed + 1000 * static_cast<unsigned>(hvd::rank() + 1));
  for (int round = 0; round < rounds; ++round) {
    std::vector<Task> all;
    for (int i = 0; i < tasks; ++i)
      all.push_back({static_cast<Kind>(common() % static_cast<unsigned>(Kind::count)),
                     static_cast<unsigned>(common() % 100000), "t" + std::to_string(i)});
    // A few without a name, which all ranks submit in one order, and wait for in any.
    std::vector<std::size_t> unnamed;
    for (std::size_t i = 0; i < 4; ++i) {
      unnamed.push_back(all.size());
      all.push_back({static_cast<Kind>(common() % static_cast<unsigned>(Kind::count)),
                     static_cast<unsigned>(common() % 100000), ""});
    }
    std::vector<std::size_t> order(static_cast<std::size_t>(tasks));
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), own);
    std::size_t at = 0;
    for (const std::size_t one : unnamed) {
      at += own() % (order.size() - at + 1);
      order.insert(order.begin() + static_cast<std::ptrdiff_t>(at++), one);
    }
    std::vector<std::pair<std::size_t, hvd::TensorHandle>> handles;
    for (const std::size_t i : order) handles.emplace_back(i, all[i].submit());
    std::shuffle(handles.begin(), handles.end(), own);
    for (auto& [i, handle] : handles) {
      if (own() % 8 == 0) continue;  // dropped, at the end of the round
      if (own() % 4 == 0) hvd::poll(handle);
      if (own() % 4 == 0) {
        expect(hvd::wait(handle, std::chrono::seconds(30)), all[i].text() + " has not ended");
        expect(hvd::poll(handle), "poll after wait");
      }
      all[i].check(handle);
    }
  }
}

// A difference is told on every rank, in the words of the calls without handles.
void check_handle_mismatches() {
  if (hvd::size() == 1) return;
  const bool last = hvd::rank() == hvd::size() - 1;
  const std::string rank = "rank " + std::to_string(hvd::size() - 1);
  const Tensor tensor = last ? torch::ones({4, 3}) : torch::ones({4, 2});
  const Task good{Kind::gather, 5, "good"};
  const std::string sides = ": rank 0 has Float [4, 2], but " + rank + " has Float [4, 3]";
  const auto gather = hvd::allgather_async(tensor, {"g", {}, {}});
  const auto under_way = good.submit();
  const auto scatter = hvd::reducescatter_async(tensor);
  const auto group = hvd::grouped_allgather_async({torch::ones({2}), tensor}, {"gs", {}, {}});
  const auto exchange = hvd::alltoall_async(torch::ones({hvd::size(), last ? 3 : 2}));
  const auto sparse = hvd::sparse_allreduce_async(torch::eye(last ? 3 : 2).to_sparse());
  const auto ends = [&](const hvd::TensorHandle& handle, const std::string& what) {
    const std::string text = error_of([&] { hvd::synchronize_all(handle); });
    expect(text == what, text + ", not " + what);
  };
  ends(sparse, "sparse_allreduce: rank 0 has Float [2, 2], 2 sparse dimensions, but " + rank +
                   " has Float [3, 3], 2 sparse dimensions");
  ends(exchange, "alltoall: rank 0 has Float [*, 2], but " + rank + " has Float [*, 3]");
  ends(group, "grouped_allgather 'gs'" + sides);
  ends(scatter, "reducescatter" + sides);
  good.check(under_way);
  ends(gather, "allgather 'g'" + sides);
  const Tensor rows = torch::ones({last ? 3 : 2});
  ends(hvd::reducescatter_async(rows),
       "reducescatter: rank 0 has Float [2], but " + rank + " has Float [3]");
  // Groups of other lengths; what comes after them matches again.
  const std::vector<Tensor> other(last ? 2 : 1, torch::ones({2}));
  const std::string lengths = error_of([&] { hvd::grouped_allgather(other, {"lengths", {}, {}}); });
  expect(lengths.find("'lengths'") != lengths.npos && lengths.find(rank) != lengths.npos,
         "groups of other lengths: " + lengths);
  expect(hvd::synchronize(hvd::allgather_async(torch::ones({1}))).size(0) == hvd::size(),
         "after groups of other lengths");
  // One rank calls with a handle, another without.
  const Tensor mine = torch::full({hvd::rank() + 1}, hvd::rank());
  const hvd::OperationOptions named{"both", {}, {}};
  const Tensor both =
      last ? hvd::allgather(mine, named) : hvd::synchronize(hvd::allgather_async(mine, named));
  expect(both.size(0) == hvd::size() * (hvd::size() + 1) / 2, "with and without a handle");
  ends(hvd::allgather_async(tensor, named), "allgather 'both'" + sides);
}

// Rank 0 joins with an operation under way, and while the others go on.
void check_handle_join() {
  const Task before{Kind::gather, 11, "before"};
  const bool joins = hvd::rank() == 0;
  const hvd::TensorHandle handle = before.submit();
  if (!joins) {
    std::vector<Tensor> rows;
    for (int rank = 1; rank < hvd::size(); ++rank) rows.push_back(torch::full({rank, 2}, rank));
    const auto gather = hvd::allgather_async(torch::full({hvd::rank(), 2}, hvd::rank()));
    const auto sparse =
        hvd::sparse_allreduce_async(torch::eye(2).to_sparse(), hvd::ReduceOp::sum, {"s", {}, {}});
    expect(hvd::synchronize(sparse).to_dense().equal(torch::eye(2) * (hvd::size() - 1)),
           "sparse_allreduce_async while rank 0 has joined");
    expect(hvd::synchronize(gather).equal(torch::cat(rows)),
           "allgather_async while rank 0 has joined");
    // The part of rank 0 is lost, and goes back as zeros.
    const auto whole = torch::ones({hvd::size(), 2}, torch::requires_grad());
    const auto more = torch::ones({hvd::size()}, torch::requires_grad());
    Tensor expected = torch::ones({hvd::size(), 2});
    expected[0].zero_();
    hvd::reducescatter(whole, hvd::ReduceOp::sum).sum().backward();
    expect(whole.grad().equal(expected), "back through a reducescatter beside a joined rank");
    const auto parts = hvd::grouped_reducescatter({whole, more}, hvd::ReduceOp::sum);
    (parts[0].sum() + parts[1].sum()).backward();
    expect(whole.grad().equal(expected * 2) && more.grad().equal(expected.select(1, 0)),
           "back through a grouped one");
  }
  hvd::join();
  before.check(handle);
}

}  // namespace

int run(const Arguments& arguments) {
  return run_checks([&] {
    const auto seed = static_cast<unsigned>(std::stoul(arguments.at(0)));
    const int rounds = std::stoi(arguments.at(1));
    if (hvd::rank() == 0) std::printf("seed %u, %d rounds\n", seed, rounds);
    check_random_orders(seed, rounds, 24);
    check_handle_mismatches();
    check_handle_join();
  });
}

}  // namespace hvdrun::test::async_probe
