// The -H list: "host:slots,host:slots". A host may stand without ":slots", which means one slot.
// Sans-I/O: names are not looked up here.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/topology.h"

namespace hvdrun {

// On a fault: nothing, and `problem` is one line that names the item and says what to write. A
// host that appears twice is merged into its first place.
std::optional<std::vector<HostSlots>> parse_host_list(std::string_view text, std::string& problem);

}  // namespace hvdrun
