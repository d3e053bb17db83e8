// gzip in memory, with a limit on what comes out.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace hvdrun {

bool looks_like_gzip(std::string_view bytes);

enum class GunzipResult {
  complete,       // everything is in `output`, checksums included
  limit_reached,  // `output` holds the first `limit` bytes and there are more
  failed,         // `error` says why, and at which byte of the input
};

// Accepts several members one after the other, and zeros after the last one, with which tapes and
// tar fill blocks up, as gzip does. Anything else there is an error.
GunzipResult gunzip(std::string_view bytes, std::size_t limit, std::string& output,
                    std::string& error);

// Without a time stamp, so equal input gives equal output.
std::string gzip(std::string_view bytes);

}  // namespace hvdrun
