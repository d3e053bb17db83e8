// An input that somebody has given hvdrun and no rank gets.
#pragma once

namespace hvdrun {

// The descriptor is a file with bytes in it, of which nobody has read any, or a pipe or socket in
// which some wait. Nothing of them is read: they may be for whoever comes after hvdrun.
bool has_unread_input(int fd);

}  // namespace hvdrun
