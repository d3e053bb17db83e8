#include "worker/hvd/client/timeline_settings.h"

#include "common/wire/timeline_name.h"

namespace hvdrun {
namespace {

std::string setting(const EnvironmentLookup& lookup, const char* name, const char* horovod_name) {
  if (const auto own = lookup(name)) return *own;
  return lookup(horovod_name).value_or("");
}

}  // namespace

TimelineSettings read_timeline_settings(const EnvironmentLookup& lookup) {
  TimelineSettings settings;
  const std::string file = setting(lookup, "HVD_TIMELINE", "HOROVOD_TIMELINE");
  settings.dynamic = file == kDynamicTimeline;
  settings.from_start = !file.empty() && !settings.dynamic;
  const std::string marks =
      setting(lookup, "HVD_TIMELINE_MARK_CYCLES", "HOROVOD_TIMELINE_MARK_CYCLES");
  settings.mark_cycles = !marks.empty() && marks != "0";
  return settings;
}

}  // namespace hvdrun
