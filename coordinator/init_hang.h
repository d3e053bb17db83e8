// All ranks have come into hvd::init, and it does not get on: who holds it up, by what the ranks
// say of themselves. Sans-I/O.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/membership.h"
#include "coordinator/rank_survey.h"

namespace hvdrun {

struct InitHang {
  // Neither wait for others nor get on: they do not answer, or are busy with something of their
  // own, their GPU say.
  std::vector<std::uint32_t> ranks;
  // Where there are none of these: pairs that have no connection, the lower rank first, in order.
  std::vector<std::pair<std::uint32_t, std::uint32_t>> links;
  bool links_cut = false;   // there are more of these
  std::size_t waiting = 0;  // ranks that wait for them
};

// `inside`: the ranks in the fence, which have done their part; `outside`: the others that are in
// hvd::init. The job has `size` ranks; what a rank says may name others.
InitHang find_init_hang(const std::vector<std::uint32_t>& inside,
                        const std::vector<std::uint32_t>& outside, const SurveyedRanks& ranks,
                        std::uint32_t size);

// For the verdict: "rank 2 hangs in hvd::init", or "rank 0 on a and rank 2 on b get no connection
// to each other in hvd::init". Never empty.
std::string init_hang_cause(const InitHang& hang, const Membership& members);
// Those without whom the others could go on; of pairs without a connection the rank that is in most
// of them, the highest of several.
std::vector<std::uint32_t> init_hang_culprits(const InitHang& hang);
// For "3 ranks wait in hvd::init since 10 s for ...".
std::string init_hang_words(const InitHang& hang);
// The doings of the first of them, in lines.
std::vector<std::string> init_hang_lines(const InitHang& hang, const SurveyedRanks& ranks,
                                         const Membership& members);

}  // namespace hvdrun
