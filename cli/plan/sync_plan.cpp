#include "cli/plan/sync_plan.h"

#include <string>

#include "common/base/environment.h"

namespace hvdrun {
namespace {

constexpr const char* kVariable = "OCI__SYNC_DIR";

}  // namespace

SyncPlan plan_sync(const Options& options, const Surroundings& here, const LaunchPlan& plan) {
  SyncPlan sync{options.sync_folder, "--sync-dir", !options.sync_folder.empty()};
  if (!sync.is_used) {
    // A variable of this job counts before what hvdrun itself was started with.
    const char* given = find_variable(plan.spec.env, kVariable);
    if (given == nullptr) given = find_variable(here.env, kVariable);
    if (given == nullptr || *given == '\0') return {};
    // Where all ranks are on this machine the variable is theirs alone.
    sync = {given, kVariable, starts_ranks(plan, true) || plan.spec.max_np > 0};
  }
  if (!sync.folder.starts_with('/')) sync.folder = here.cwd + "/" + sync.folder;
  return sync;
}

}  // namespace hvdrun
