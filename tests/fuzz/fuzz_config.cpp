// A configuration file as a user may write it: options of the table with values that they take, or
// one line that names the place.
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "cli/options/config_file.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hvdrun;
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    Options options;
    for (const OptionUse& use : parse_config(text, "file")) {
      assert(use.row != nullptr && use.values.size() == count_values(*use.row));
      use.row->take(options, use);
    }
  } catch (const UsageError& e) {
    assert(std::strncmp(e.what(), "file:", 5) == 0);
    assert(std::strchr(e.what(), '\n') == nullptr);
  }
  return 0;
}
