// Refusals, over a fake job; tests/integration/programs/torch_mismatch_probe.cpp has real ranks.
#include "tests/unit/worker/hvd/torch/catch_with_torch.h"
#include "tests/unit/worker/hvd/torch/fake_collectives.h"

namespace hvdrun {
namespace {

using Catch::Matchers::Contains;
using test::error_of;
using test::fake_job;
using test::reset_fake_job;

TEST_CASE("splits that make no sense are refused", "[rows]") {
  reset_fake_job(3);
  const torch::Tensor tensor = torch::ones({7, 2});
  const auto refused = [&](const std::vector<std::int64_t>& splits) {
    return error_of([&] { hvd::alltoall(tensor, splits); });
  };
  CHECK_THAT(refused({}), Contains("7 rows are not a multiple of 3 ranks"));
  CHECK_THAT(refused({1, 2}), Contains("2 splits for 3 ranks"));
  CHECK_THAT(refused({1, -1, 1}), Contains("a split of -1 rows"));
  CHECK_THAT(refused({4, 4, 0}), Contains("more than the 7 rows"));
  CHECK(hvd::alltoall(tensor, {2, 0, 3}).tensor.sizes() == torch::IntArrayRef({5, 2}));
}

TEST_CASE("operations on rows need rows", "[rows]") {
  reset_fake_job();
  const torch::Tensor scalar = torch::tensor(1.0F);
  CHECK_THAT(error_of([&] { hvd::reducescatter(scalar); }),
             Contains("reducescatter: a tensor without dimensions"));
  CHECK_THAT(error_of([&] { hvd::alltoall(scalar); }),
             Contains("alltoall: a tensor without dimensions"));
  CHECK_THAT(error_of([&] { hvd::reducescatter(torch::ones({4}), hvd::ReduceOp::max); }),
             Contains("only average and sum"));
  CHECK_THAT(error_of([&] { hvd::sparse_allreduce(torch::ones({4})); }),
             Contains("not a sparse COO tensor"));
}

TEST_CASE("tensors that do not fit together are named with both sides", "[rows]") {
  reset_fake_job(3);
  // Rank 2 has another number of elements in a row.
  fake_job().peers = [](int rank, std::size_t index, std::int64_t mine) {
    return rank == 2 && index == 1 ? mine + 1 : mine;
  };
  fake_job().objects = [](int rank, const std::string& mine) {
    return rank == 2 ? std::string("Float [4, 3]") : mine;
  };
  const auto mismatch = [](const std::function<void()>& f) {
    return error_of(f, hvd::ErrorCode::mismatch);
  };
  const std::string sides = ": rank 0 has Float [4, 2], but rank 2 has Float [4, 3]";
  const torch::Tensor tensor = torch::ones({4, 2});
  CHECK(mismatch([&] { hvd::allgather(tensor); }) == "allgather" + sides);
  CHECK(mismatch([&] { hvd::reducescatter(tensor); }) == "reducescatter" + sides);
  CHECK(mismatch([&] { hvd::synchronize(hvd::allgather_async(tensor)); }) == "allgather" + sides);
}

TEST_CASE("rows with handles are what rows without are", "[rows]") {
  reset_fake_job(3);
  const torch::Tensor tensor = torch::arange(12, torch::kFloat).view({6, 2});
  CHECK(hvd::synchronize(hvd::allgather_async(tensor)).equal(hvd::allgather(tensor)));
  CHECK(hvd::synchronize(hvd::reducescatter_async(tensor)).equal(hvd::reducescatter(tensor)));
  const auto expected = hvd::alltoall(tensor, {1, 0, 3});
  const auto got = hvd::synchronize_alltoall(hvd::alltoall_async(tensor, {1, 0, 3}));
  CHECK(got.tensor.equal(expected.tensor));
  CHECK(got.received_splits == expected.received_splits);
  const torch::Tensor sparse = torch::eye(3).to_sparse();
  CHECK(hvd::synchronize(hvd::sparse_allreduce_async(sparse)).to_dense().allclose(torch::eye(3)));
  const auto all = hvd::grouped_allgather({tensor, torch::ones({0, 3}), torch::ones({2})});
  REQUIRE(all.size() == 3);
  CHECK(all[0].equal(hvd::allgather(tensor)));
  CHECK(all[1].sizes() == torch::IntArrayRef({0, 3}));
  CHECK(hvd::grouped_reducescatter({tensor, tensor})[1].equal(hvd::reducescatter(tensor)));
  // 1 + 2^-12 is 1 in fp16; the result has the tensor's own dtype.
  const torch::Tensor fine = torch::full({6}, 1 + 1.0 / 4096);
  for (const auto compression : {hvd::Compression::none, hvd::Compression::fp16}) {
    const auto sum = hvd::ReduceOp::sum;
    const torch::Tensor whole = hvd::reducescatter(fine, sum, {}, compression);
    CHECK(whole.scalar_type() == torch::kFloat);
    const float one = compression == hvd::Compression::none ? fine[0].item<float>() : 1.0F;
    CHECK(whole.equal(torch::full_like(whole, one * whole[0].item<float>() / one)));
    CHECK((whole[0].item<float>() == std::round(whole[0].item<float>())) ==
          (compression == hvd::Compression::fp16));
    CHECK(hvd::synchronize(hvd::reducescatter_async(fine, sum, {}, compression)).equal(whole));
    CHECK(hvd::grouped_reducescatter({fine, tensor}, sum, {}, compression)[0].equal(whole));
  }
  CHECK(hvd::grouped_allgather({}).empty());
  CHECK_THAT(error_of([&] {
               hvd::synchronize(hvd::alltoall_async(tensor, {9, 0, 0}));
             }),
             Contains("more than the 6 rows"));
}

TEST_CASE("rows with handles end in their second step, whoever asks", "[rows]") {
  reset_fake_job(3);
  fake_job().late = true;
  const torch::Tensor tensor = torch::ones({4, 2});
  const hvd::TensorHandle handle = hvd::allgather_async(tensor);
  REQUIRE(fake_job().late_thens.size() == 1);
  CHECK_FALSE(hvd::poll(handle));
  CHECK_FALSE(hvd::wait(handle, std::chrono::milliseconds(1)));
  const std::size_t before = fake_job().calls.size();
  fake_job().late_thens.front()();
  CHECK(fake_job().calls.size() == before + 1);
  CHECK(hvd::synchronize(handle).equal(torch::ones({12, 2})));
  CHECK_THAT(error_of([&] { hvd::synchronize(handle); }), Contains("result was taken"));
}

TEST_CASE("a group is one operation for each dtype", "[rows]") {
  reset_fake_job();
  const std::vector<torch::Tensor> tensors{torch::ones({2, 3}), torch::ones({2}, torch::kLong) * 2,
                                           torch::ones({3}).t(), torch::ones({0})};
  const auto results = hvd::grouped_allreduce(tensors, hvd::ReduceOp::sum);
  REQUIRE(results.size() == 4);
  for (std::size_t i = 0; i < results.size(); ++i) {
    CHECK(results[i].equal(tensors[i] * 10));
    CHECK(results[i].storage().nbytes() == tensors[i].nbytes());
  }
  CHECK(fake_job().groups == 2);
  CHECK(hvd::grouped_allreduce({}).empty());
}

TEST_CASE("compressed tensors travel in 16 bits and come back as they were", "[rows]") {
  reset_fake_job();
  const auto compression = GENERATE(hvd::Compression::fp16, hvd::Compression::bf16);
  const auto wire =
      compression == hvd::Compression::fp16 ? hvd::DataType::float16 : hvd::DataType::bfloat16;
  torch::Tensor tensor = torch::tensor({1.0, 2.5, -4.0}, torch::kDouble);
  CHECK(hvd::allreduce(tensor, hvd::ReduceOp::average, {}, compression).equal(tensor * 2.5));
  const auto grouped = hvd::grouped_allreduce({tensor, torch::ones({2}, torch::kInt)},
                                              hvd::ReduceOp::average, {}, compression);
  CHECK(grouped[0].equal(tensor * 2.5));
  REQUIRE(fake_job().calls.size() == 3);
  CHECK(fake_job().calls[0].type == wire);
  CHECK(fake_job().calls[1].type == wire);
  CHECK(fake_job().calls[2].type == hvd::DataType::int32);
  const torch::Tensor expected = tensor * 2.5;
  hvd::allreduce_(tensor, hvd::ReduceOp::average, {}, compression);
  CHECK(tensor.equal(expected));
  CHECK(tensor.scalar_type() == torch::kDouble);
}

TEST_CASE("gradients without an optimizer are averaged", "[rows]") {
  reset_fake_job();
  const torch::Tensor a = torch::ones({3}, torch::requires_grad());
  const torch::Tensor b = torch::ones({2}, torch::requires_grad());
  const auto gradients = hvd::distributed_grad({(a * 2).sum()}, {a, b});
  CHECK(gradients[0].equal(torch::full({3}, 5.0F)));
  CHECK(gradients[1].equal(torch::zeros({2})));
}

}  // namespace
}  // namespace hvdrun
