// The folder that ranks' files are brought to: --sync-dir, or OCI__SYNC_DIR as the courses of OCI
// have it.
#pragma once

#include "cli/plan/launch_plan.h"

namespace hvdrun {

// `plan` knows its hosts and the ranks' environment.
SyncPlan plan_sync(const Options& options, const Surroundings& here, const LaunchPlan& plan);

}  // namespace hvdrun
