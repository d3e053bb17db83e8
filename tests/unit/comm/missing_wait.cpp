// Three ranks as threads reduce in chunks; with the argument "planted", each leaves out waits.
// Under the thread sanitizer that must be a report, and nothing without.
#include <cstdio>
#include <cstring>

#include "tests/unit/comm/disturbance.h"
#include "tests/unit/comm/rank_threads.h"

using namespace hvdrun;
using namespace hvdrun::test;

int main(int argc, char** argv) {
  RankThreads ranks(3);
  if (argc > 1 && std::strcmp(argv[1], "planted") == 0) leave_out_waits(5);
  const Disturbance disturbance(1);
  const RankErrors errors = ranks.run([](Communicator& communicator) {
    std::vector<float> data(100'000, 1.0F);
    for (int round = 0; round < 50; ++round)
      communicator.allreduce(data.data(), data.data(), data.size(),
                             {hvd::DataType::float32, hvd::ReduceOp::max}, {});
  });
  const std::string error = first_error(errors);
  if (!error.empty()) std::fprintf(stderr, "%s\n", error.c_str());
  return error.empty() ? 0 : 1;
}
