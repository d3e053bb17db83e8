// Three ranks as threads reduce in chunks; with the argument "planted", each leaves out waits.
// Under the thread sanitizer that must be a report, and nothing without.
#include <chrono>
#include <cstdio>
#include <cstring>

#include "tests/unit/worker/hvd/comm/disturbance.h"
#include "tests/unit/worker/hvd/comm/rank_threads.h"

using namespace hvdrun;
using namespace hvdrun::test;

namespace {

RankErrors reduce_often(std::chrono::milliseconds timeout) {
  RankThreads ranks(3);
  return ranks.run([timeout](Communicator& communicator) {
    std::vector<float> data(100'000, 1.0F);
    for (int round = 0; round < 30; ++round)
      communicator.allreduce(data.data(), data.data(), data.size(),
                             {hvd::DataType::float32, hvd::ReduceOp::max}, {.timeout = timeout});
  });
}

}  // namespace

int main(int argc, char** argv) {
  const Disturbance disturbance(1);
  if (argc > 1 && std::strcmp(argv[1], "planted") == 0) {
    leave_out_waits(5);
    // A rank that does not wait may get two meetings ahead, where nobody finds it any more: an
    // error, often before any race.
    for (int i = 0; i < 20; ++i) reduce_often(std::chrono::milliseconds(200));
    return 0;
  }
  const std::string error = first_error(reduce_often(std::chrono::seconds(60)));
  if (!error.empty()) std::fprintf(stderr, "%s\n", error.c_str());
  return error.empty() ? 0 : 1;
}
