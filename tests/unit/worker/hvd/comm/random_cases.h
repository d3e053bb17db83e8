// Sequences of random operations, the same on every rank that makes them from the same seed.
#pragma once

#include <random>
#include <vector>

#include "tests/unit/worker/hvd/comm/reference.h"

namespace hvdrun::test {

inline const std::vector<hvd::DataType> kTypes{
    hvd::DataType::uint8,   hvd::DataType::int8,    hvd::DataType::uint16,  hvd::DataType::int16,
    hvd::DataType::int32,   hvd::DataType::int64,   hvd::DataType::float16, hvd::DataType::bfloat16,
    hvd::DataType::float32, hvd::DataType::float64, hvd::DataType::boolean};
inline const std::vector<hvd::ReduceOp> kOps{hvd::ReduceOp::average, hvd::ReduceOp::sum,
                                             hvd::ReduceOp::min, hvd::ReduceOp::max,
                                             hvd::ReduceOp::product};
inline const std::vector<OpKind> kKinds{OpKind::allreduce, OpKind::broadcast, OpKind::allgather,
                                        OpKind::reducescatter, OpKind::alltoall};

// Each reduction in its turn, and now and then scale factors.
inline void choose_reduction(Case& c, std::uint64_t choice) {
  c.reduction.op = kOps[choice % kOps.size()];
  if (c.reduction.type == hvd::DataType::boolean) {
    if (c.reduction.op == hvd::ReduceOp::average) c.reduction.op = hvd::ReduceOp::sum;
    return;
  }
  if (choice % 7 == 0) c.reduction.prescale = 0.37;
  if (choice % 11 == 0) c.reduction.postscale = -1.75;
}

// Mostly small ones, sometimes of several chunks.
inline std::vector<Case> random_cases(std::uint64_t seed, std::size_t count, int ranks) {
  std::mt19937_64 random(seed);
  std::vector<Case> cases(count);
  for (Case& c : cases) {
    c.kind = random() % 16 == 0 ? OpKind::barrier : kKinds[random() % kKinds.size()];
    c.reduction.type = kTypes[random() % kTypes.size()];
    choose_reduction(c, random());
    c.uneven = random() % 2 == 0;
    c.count = random() % (std::size_t{1} << (random() % 17));
    c.root = static_cast<int>(random() % static_cast<unsigned>(ranks));
    c.in_place = random() % 2 == 0;
    c.misalign = random() % 9;
    c.round = random();
    c.memory = static_cast<Case::Memory>(random() % 3);
    if (c.kind == OpKind::barrier) c = Case{};
  }
  return cases;
}

}  // namespace hvdrun::test
