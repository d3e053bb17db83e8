// What every host is told to start.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/messages.h"
#include "coordinator/job_spec.h"
#include "coordinator/membership.h"

namespace hvdrun {

// One message for each host that has a rank, in the order of membership.hosts_used().
// `addresses` has theirs; `master_port` is what the first of them offers for rank 0.
std::vector<Launch> make_launches(const JobSpec& spec, const Membership& membership,
                                  const std::vector<std::string>& addresses,
                                  std::uint16_t master_port);

}  // namespace hvdrun
