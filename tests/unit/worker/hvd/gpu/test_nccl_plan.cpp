// Reductions of hvd's as NCCL and our kernels get them.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "worker/hvd/gpu/nccl_plan.h"

using namespace hvdrun;
using hvd::DataType;
using hvd::ReduceOp;

namespace {

template <class T>
T scalar(const NcclReduction& plan) {
  T value{};
  std::memcpy(&value, plan.scalar.data(), sizeof(value));
  return value;
}

}  // namespace

TEST_CASE("a plain reduction is one of NCCL's", "[gpu][plan]") {
  const auto op = [](ReduceOp asked) { return plan_reduction({DataType::float32, asked}, 4).op; };
  CHECK(op(ReduceOp::average) == nccl::avg);
  CHECK(op(ReduceOp::sum) == nccl::sum);
  CHECK(op(ReduceOp::product) == nccl::prod);
  CHECK_FALSE(plan_reduction({DataType::float32, ReduceOp::average}, 4).premultiply);
  CHECK_FALSE(plan_reduction({DataType::int64, ReduceOp::average}, 4).needs_kernels());
  CHECK(plan_reduction({DataType::bfloat16, ReduceOp::sum}, 4).type == nccl::bfloat16);
  CHECK(plan_reduction({DataType::int64, ReduceOp::sum}, 4).type == nccl::int64);
}

TEST_CASE("the least and the greatest of floats are those of integers", "[gpu][plan]") {
  const auto plan = [](DataType type, ReduceOp op) { return plan_reduction({type, op, 2, 3}, 4); };
  for (const ReduceOp op : {ReduceOp::min, ReduceOp::max}) {
    const nccl::RedOp as = op == ReduceOp::min ? nccl::min : nccl::max;
    for (const DataType type : {DataType::float16, DataType::bfloat16, DataType::float32}) {
      CHECK(plan(type, op).ordered);
      CHECK(plan(type, op).type == nccl::int32);
      CHECK(plan(type, op).op == as);
      CHECK(plan(type, op).before == 2);
      CHECK(plan(type, op).after == 3);
    }
    CHECK(plan(DataType::float64, op).type == nccl::int64);
    CHECK(plan_reduction({DataType::float32, op}, 4).needs_kernels());
    CHECK_FALSE(plan(DataType::int32, op).ordered);
    CHECK(plan(DataType::int32, op).op == as);
    CHECK_FALSE(plan_reduction({DataType::int8, op}, 4).needs_kernels());
  }
  CHECK_FALSE(plan_reduction({DataType::float32, ReduceOp::sum}, 4).ordered);
}

TEST_CASE("what passes through a limited memory is cut into rounds", "[gpu][plan]") {
  const auto rounds = key_rounds({5, 0, 3, 9}, 6);
  REQUIRE(rounds.size() == 3);
  std::vector<std::size_t> next(4);  // of each buffer, what comes next
  for (const auto& round : rounds) {
    std::size_t at = 0;
    for (const KeyPiece& piece : round) {
      CHECK(piece.at == at);
      CHECK(piece.begin == next[piece.part]);
      CHECK(piece.count > 0);
      at += piece.count;
      next[piece.part] += piece.count;
    }
    CHECK(at == (&round == &rounds.back() ? 5 : 6));
  }
  CHECK(next == std::vector<std::size_t>{5, 0, 3, 9});
  CHECK(key_rounds({5, 3}, 8).size() == 1);
  CHECK(scattered_each({5, 3}, 8) == 5);  // all at once
  CHECK(scattered_each({5, 4}, 8) == 4);
  CHECK(scattered_each({5, 3, 1}, 2) == 1);
}

TEST_CASE("a factor before a sum of floats is NCCL's, in the type of the elements", "[gpu][plan]") {
  const auto sum = plan_reduction({DataType::float32, ReduceOp::sum, 0.1}, 4);
  CHECK(sum.premultiply);
  CHECK(scalar<float>(sum) == 0.1F);
  CHECK_FALSE(sum.needs_kernels());
  // An average of four: the share goes into the same factor.
  CHECK(scalar<double>(plan_reduction({DataType::float64, ReduceOp::average, 0.1}, 4)) == 0.025);
  CHECK(scalar<std::uint16_t>(plan_reduction({DataType::float16, ReduceOp::sum, 0.5}, 4)) ==
        0x3800);
  CHECK(scalar<std::uint16_t>(plan_reduction({DataType::bfloat16, ReduceOp::sum, -2}, 4)) ==
        0xc000);
}

TEST_CASE("a factor that the type does not hold is not NCCL's", "[gpu][plan]") {
  for (const double factor : {1e-9, 1e-6, 1e6, 0.1}) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::average}) {
      const auto plan = plan_reduction({DataType::float16, op, factor}, 4);
      CHECK_FALSE(plan.premultiply);
      CHECK(plan.before == factor);
      CHECK(plan.op == (op == ReduceOp::sum ? nccl::sum : nccl::avg));
    }
    CHECK_FALSE(plan_reduction({DataType::bfloat16, ReduceOp::sum, factor}, 4).premultiply);
  }
  CHECK(plan_reduction({DataType::bfloat16, ReduceOp::sum, 0x1p-30}, 4).premultiply);
  CHECK(plan_reduction({DataType::bfloat16, ReduceOp::average, 1.5}, 4).premultiply);
  CHECK_FALSE(plan_reduction({DataType::bfloat16, ReduceOp::average, 1.5}, 5).premultiply);
  CHECK(plan_reduction({DataType::float16, ReduceOp::sum, 0x1.ffcp9}, 4).premultiply);
  CHECK_FALSE(plan_reduction({DataType::bfloat16, ReduceOp::sum, 0x1.ffcp9}, 4).premultiply);
  CHECK(plan_reduction({DataType::float16, ReduceOp::sum, 0}, 4).premultiply);
  CHECK(plan_reduction({DataType::float16, ReduceOp::sum, 1e60}, 4).premultiply);
  CHECK(plan_reduction({DataType::float32, ReduceOp::sum, 1e60}, 4).premultiply);
  CHECK_FALSE(plan_reduction({DataType::float32, ReduceOp::average, 2e-38}, 4).premultiply);
  CHECK_FALSE(plan_reduction({DataType::float64, ReduceOp::average, 4e-308}, 4).premultiply);
}

TEST_CASE("what NCCL cannot do goes to our kernels", "[gpu][plan]") {
  const auto most = plan_reduction({DataType::int32, ReduceOp::max, 0.5, 3}, 4);
  CHECK_FALSE(most.premultiply);
  CHECK(most.before == 0.5);
  CHECK(most.after == 3);
  CHECK(most.needs_kernels());
  CHECK(plan_reduction({DataType::int32, ReduceOp::sum, 0.5}, 4).before == 0.5);
  CHECK(plan_reduction({DataType::float32, ReduceOp::sum, 1, 3}, 4).needs_kernels());
}

TEST_CASE("booleans are bytes of any value", "[gpu][plan]") {
  const auto plan = [](ReduceOp op) { return plan_reduction({DataType::boolean, op}, 4); };
  CHECK(plan(ReduceOp::sum).op == nccl::max);
  CHECK(plan(ReduceOp::max).op == nccl::max);
  CHECK(plan(ReduceOp::product).op == nccl::min);
  CHECK(plan(ReduceOp::min).op == nccl::min);
  CHECK(plan(ReduceOp::min).normalise);
  CHECK(plan(ReduceOp::min).type == nccl::uint8);
}

TEST_CASE("NCCL reduces no 16-bit integers, but moves them", "[gpu][plan]") {
  CHECK_THROWS_WITH(plan_reduction({DataType::int16, ReduceOp::sum}, 2),
                    "NCCL does not reduce 16-bit integers; convert them to int32");
  CHECK_THROWS_AS(plan_reduction({DataType::uint16, ReduceOp::max}, 2), hvd::Error);
  std::size_t count = 5;
  CHECK(moved_type(DataType::int16, count) == nccl::uint8);
  CHECK(count == 10);
  count = 5;
  CHECK(moved_type(DataType::float64, count) == nccl::int64);
  CHECK(moved_type(DataType::float32, count) == nccl::int32);
  CHECK(moved_type(DataType::boolean, count) == nccl::uint8);
  CHECK(count == 5);
}

TEST_CASE("after the rounds of an adaptive sum every rank has met every other once",
          "[gpu][plan]") {
  for (int size = 1; size <= 33; ++size) {
    const auto count = static_cast<std::size_t>(size);
    std::vector<std::vector<AdasumRound>> all;
    // The parts of each rank's vector, in the order in which it was combined.
    std::vector<std::string> sums;
    for (int rank = 0; rank < size; ++rank) {
      all.push_back(adasum_rounds(rank, size));
      sums.push_back(std::to_string(rank));
    }
    for (std::size_t round = 0; round < all.front().size(); ++round) {
      std::vector<std::string> next = sums;
      for (std::size_t rank = 0; rank < count; ++rank) {
        const AdasumRound& own = all[rank][round];
        const auto from = static_cast<std::size_t>(own.from);
        if (from == rank) {
          CHECK(own.to.empty());
          continue;
        }
        // Its sender sends it here, once.
        const std::vector<int>& to = all[from][round].to;
        CHECK(std::count(to.begin(), to.end(), static_cast<int>(rank)) == 1);
        CHECK(own.first == (rank < from));
        next[rank] = own.first ? "(" + sums[rank] + " " + sums[from] + ")"
                               : "(" + sums[from] + " " + sums[rank] + ")";
      }
      // Nobody gets what it does not wait for.
      for (std::size_t rank = 0; rank < count; ++rank)
        for (const int to : all[rank][round].to)
          CHECK(all[static_cast<std::size_t>(to)][round].from == static_cast<int>(rank));
      sums = next;
    }
    CHECK(std::all_of(sums.begin(), sums.end(), [&](const auto& sum) { return sum == sums[0]; }));
    if (size == 5) CHECK(sums[0] == "(((0 1) (2 3)) 4)");
    if (size == 7) CHECK(sums[6] == "(((0 1) (2 3)) ((4 5) 6))");
  }
}
