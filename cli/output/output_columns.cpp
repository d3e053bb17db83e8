#include "cli/output/output_columns.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string_view>
#include <sys/ioctl.h>
#include <unistd.h>

namespace hvdrun {
namespace {

constexpr std::uint32_t kUsualColumns = 80;

}  // namespace

std::uint32_t stdout_columns() {
  const char* const term = std::getenv("TERM");  // NOLINT(concurrency-mt-unsafe): one thread
  if (::isatty(STDOUT_FILENO) != 1 || term == nullptr || std::string_view(term) == "dumb") return 0;
  winsize size{};
  const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : kUsualColumns;
}

std::uint32_t columns_behind_tags(std::uint32_t columns, const OutputOptions& output,
                                  const RankTable& table) {
  if (columns == 0 || !output.folder.empty()) return 0;
  OutputTag tag(output.tag, output.timestamps, false, std::make_shared<const RankTable>(table));
  std::size_t longest = 0;
  for (const RankPlace& place : table.places())
    longest = std::max(longest, tag.render({place.rank}, OutputStream::out, {}).size());
  return longest < columns ? columns - static_cast<std::uint32_t>(longest) : 0;
}

}  // namespace hvdrun
