// The hosts as programs of Horovod see them. Sans-I/O.
#pragma once

#include <vector>

#include "cli/hosts/host_item.h"
#include "common/host/topology.h"

namespace hvdrun {

// `names` has what the user calls each of `hosts`, more than one of this machine, each with its
// slots. To Horovod each of them is a host, with local ranks of its own. A name stands for one host
// there, so a second one of the same name (another user's, by another port) gets a longer one.
// Empty when that makes no difference. The ranks are the same, in the same order.
std::vector<HostSlots> horovod_hosts(const std::vector<std::vector<HostSlots>>& names,
                                     const std::vector<HostSlots>& hosts,
                                     const std::vector<HostLogin>& logins);

}  // namespace hvdrun
