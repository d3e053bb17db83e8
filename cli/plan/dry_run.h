// --dry-run: what would be started where. Sans-I/O.
#pragma once

#include <string>

#include "cli/plan/launch_plan.h"

namespace hvdrun {

// `own`: hvdrun's environment; what a rank finds beyond it is shown.
std::string describe_plan(const LaunchPlan& plan, const Environment& own);
// The same as one JSON object.
std::string plan_as_json(const LaunchPlan& plan, const Environment& own);

}  // namespace hvdrun
