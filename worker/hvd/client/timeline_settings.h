// A worker's environment on the timeline.
#pragma once

#include "worker/hvd/client/worker_environment.h"

namespace hvdrun {

// HVD_TIMELINE, or HOROVOD_TIMELINE: the file that hvdrun writes, or DYNAMIC.
struct TimelineSettings {
  bool from_start = false;   // record from hvd::init() on
  bool dynamic = false;      // the program may start it
  bool mark_cycles = false;  // with from_start
};

TimelineSettings read_timeline_settings(const EnvironmentLookup& lookup);

}  // namespace hvdrun
