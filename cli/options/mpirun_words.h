// Words of mpirun, srun and torchrun that say how many ranks a host gets, how they are numbered,
// and what they are bound to. hvdrun fills the hosts one after the other and binds nothing. A word
// that comes to the same is taken silently, a number for each host is done. Another order is
// refused, and a wish that is not met is told in a line. All throw UsageError.
#pragma once

#include "cli/options/option_table.h"

namespace hvdrun {

// The words to write instead of an order in which the hosts take turns.
inline constexpr const char* kHostsInTurn =
    "the ranks of a host follow each other, so ranks cannot be dealt out to the hosts in turn; for "
    "the same number on each host write -N NUMBER, for others -H gpu1:4,gpu2:2";

// -N 4 and its like. Two of them, or --map-by ppr besides, must not differ.
void take_ranks_per_host(Options& options, const OptionUse& use);
void take_one_per_host(Options& options, const OptionUse& use);  // --pernode

void take_map_by(Options& options, const OptionUse& use);   // slot, core, ppr:4:node:PE=2
void take_rank_by(Options& options, const OptionUse& use);  // slot, fill, socket
void take_bind_to(Options& options, const OptionUse& use);  // none, core, user:0,2
void take_bindings_report(Options& options, const OptionUse& use);
// A setting of Open MPI: those of its transports mean nothing here.
void take_mca(Options& options, const OptionUse& use);

// Refuses a whole list of words for mpirun: they are hvdrun's own.
[[noreturn]] void refuse_mpi_args(Options& options, const OptionUse& use);

}  // namespace hvdrun
