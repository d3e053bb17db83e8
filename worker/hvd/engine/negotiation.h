// The ranks' words to each other when they do not know what all of them will run next. From them
// they conclude the same on every rank. Sans-I/O.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "worker/hvd/engine/entry.h"

namespace hvdrun {

// An operation that a rank could run. Travels as it is in memory.
struct Proposal {
  std::uint64_t name = 0;  // of the Entry
  std::uint64_t meta = 0;
  std::uint64_t kind = 0;   // operations of one kind may run as one; 0: not with any other
  std::uint64_t bytes = 0;  // of its buffers, where it may
};

// All that one rank has to say.
struct Offer {
  bool joined = false;              // it takes part in whatever the others run
  std::vector<Proposal> proposals;  // in the order of submission
};

std::string encode(const Offer& offer);
// Throws Error(internal) for what is no offer.
Offer decode(std::string_view bytes);

struct Agreement {
  // Names, in the order in which all ranks run them; those of one batch as one operation.
  std::vector<std::vector<std::uint64_t>> batches;
  // Names of what all ranks have called, but not in the same way.
  std::vector<std::uint64_t> mismatches;
  bool all_joined = false;
  // The first of the ranks that have not joined; the order is its.
  std::size_t leader = 0;
};

// `fusion_bytes`: how large a batch of several operations may become.
Agreement agree(const std::vector<Offer>& offers, std::uint64_t fusion_bytes);

// Ranks that have neither joined nor offered anything of this name.
std::vector<std::size_t> ranks_without(const std::vector<Offer>& offers, std::uint64_t name);

}  // namespace hvdrun
