// The GPU that a rank takes, and ranks whose places do not fit together.
#include <string>
#include <vector>

#include <hvd/hvd.h>

#include "tests/catch.h"
#include "worker/hvd/gpu/placement.h"
#include "worker/hvd/gpu/visible_devices.h"

using namespace hvdrun;
using Names = std::vector<std::string>;

TEST_CASE("CUDA_VISIBLE_DEVICES is read as the driver reads it", "[gpu][device]") {
  CHECK(parse_visible_devices(nullptr).all);
  CHECK_FALSE(parse_visible_devices(nullptr).none());
  CHECK(parse_visible_devices("").none());
  CHECK(parse_visible_devices("-1").none());
  CHECK(parse_visible_devices("NoDevFiles").none());
  CHECK(parse_visible_devices("0,2").names == Names{"0", "2"});
  CHECK(parse_visible_devices(" 0 , 2 ").names == Names{"0", "2"});
  CHECK(parse_visible_devices("2,-1,0").names == Names{"2"});
  CHECK(parse_visible_devices("0,,2").names == Names{"0"});
  CHECK(parse_visible_devices("0,").names == Names{"0"});
  CHECK(parse_visible_devices("GPU-8932f937,MIG-1a2b").names == Names{"GPU-8932f937", "MIG-1a2b"});
}

TEST_CASE("a rank takes the GPU of its local rank", "[gpu][device]") {
  CHECK(choose_device(0, 1, 1, {}) == 0);
  CHECK(choose_device(3, 4, 8, {}) == 3);
  CHECK(choose_device(1, 2, 2, parse_visible_devices("4,6")) == 1);
  CHECK(choose_device(3, 4, 2, {}, /*may_share=*/true) == 1);
}

TEST_CASE("more local ranks than GPUs is one line with both numbers", "[gpu][device]") {
  CHECK_THROWS_WITH(choose_device(0, 4, 2, {}),
                    "this host has 4 ranks and 2 GPUs: start at most 2 ranks here, as in -H "
                    "HOST:2, or run on the CPU with --gpus none");
  CHECK_THROWS_WITH(choose_device(1, 2, 1, parse_visible_devices("5")),
                    "this host has 2 ranks and 1 GPU (CUDA_VISIBLE_DEVICES=5): start at most 1 "
                    "rank here, as in -H HOST:1, or run on the CPU with --gpus none");
}

namespace {

Placement gpu(char number) {
  cuda::Uuid uuid{};
  uuid.bytes[0] = number;
  return placed_on_gpu(uuid);
}

}  // namespace

TEST_CASE("ranks on GPUs of their own fit, and ranks on CPUs do", "[gpu][placement]") {
  CHECK(check_placements(std::vector{gpu(1), gpu(2)}).empty());
  CHECK(check_placements(std::vector{placed_on_cpu("a"), placed_on_cpu("b")}).empty());
  CHECK(check_placements({}).empty());
}

TEST_CASE("some ranks on CPUs is an error that names them and why", "[gpu][placement]") {
  CHECK(check_placements(std::vector{gpu(1), placed_on_cpu("there is no NVIDIA driver here: x"),
                                     placed_on_cpu("y")}) ==
        "rank 0 has a GPU, but ranks 1, 2 not (rank 1: there is no NVIDIA driver here: x); give "
        "every rank one, or run all on the CPU with --gpus none");
  std::vector<Placement> many(20, gpu(1));
  many[7] = placed_on_cpu("why");
  CHECK(check_placements(many) ==
        "ranks 0, 1, 2, 3, 4, 5, 6, 8 and 11 more have GPUs, but rank 7 not (rank 7: why); give "
        "every rank one, or run all on the CPU with --gpus none");
}

TEST_CASE("two ranks on one GPU are named, unless a test says so", "[gpu][placement]") {
  const std::vector<Placement> ranks{gpu(1), gpu(2), gpu(1)};
  CHECK(check_placements(ranks) ==
        "ranks 0 and 2 have the same GPU, which NCCL does not allow; start fewer ranks there, or "
        "give them GPUs of their own with --gpus");
  CHECK(check_placements(ranks, true).empty());
}

TEST_CASE("a reason from another process is cut and cleaned", "[gpu][placement]") {
  Placement bad = placed_on_cpu(std::string(1000, 'x') + "\n");
  CHECK(bad.why_length == bad.why.size());
  bad.why_length = 255;
  bad.why[0] = '\n';
  const std::string line = check_placements(std::vector{gpu(1), bad});
  CHECK(line.find('\n') == std::string::npos);
  CHECK(line.size() < 500);
}
