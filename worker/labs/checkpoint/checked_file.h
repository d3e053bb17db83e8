// A file with a checksum behind its content, so that a damaged checkpoint is refused and not
// trained on: torch's reader does not look at the checksums of its archives. It ignores what stands
// behind them, so such a file is still one that torch can load.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace hvdrun {

std::string add_checksum(std::string_view content);
// Nothing when `bytes` is not what add_checksum() made; `error` says why, without a file's name.
std::optional<std::string_view> verify_checksum(std::string_view bytes, std::string& error);

}  // namespace hvdrun
