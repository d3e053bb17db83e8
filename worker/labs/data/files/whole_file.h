// Files read and written as a whole. Errors are one line that begins with the path.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace hvdrun {

// Regular files only: a pipe or a terminal named by mistake must not block the program.
std::optional<std::string> read_whole_file(const std::string& path, std::uint64_t limit,
                                           std::string& error);

// A reader, and a crash at any moment, sees the old file or the new one, never a part: written in
// the same folder, synced, renamed over it. A writer that is killed leaves nothing else there. It
// may where the file system knows no files without a name, or between the last two steps. Not
// synced, a power failure may leave less: for files that can be made again, hundreds of them. Where
// a link leads there, and what is no file is written to (common/base/output_place.h).
enum class Sync { yes, no };
bool write_whole_file(const std::string& path, std::string_view bytes, std::string& error,
                      Sync sync = Sync::yes);
// True when that could be done now, as far as it can be told without a change.
bool can_write_file(const std::string& path, std::string& error);

}  // namespace hvdrun
