#include "common/host/slurm_devices.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

TEST_CASE("each host's ranks see the devices that Slurm gave the job there", "[environment]") {
  const Environment hvdrun = {"SLURM_JOB_ID=7", "CUDA_VISIBLE_DEVICES=0,1", "ZE_AFFINITY_MASK=1",
                              "CUDA_VISIBLE_DEVICES_X=9"};
  Environment job = hvdrun;
  set_variable(job, "ZE_AFFINITY_MASK", "0");  // the user's, by -x
  leave_devices_to_slurm(job, hvdrun);
  CHECK(job == Environment{"SLURM_JOB_ID=7", "ZE_AFFINITY_MASK=0", "CUDA_VISIBLE_DEVICES_X=9"});
  // On hvdrun's own host, and on another.
  Environment here = job;
  add_devices_of_slurm(here, hvdrun);
  CHECK(std::string(find_variable(here, "CUDA_VISIBLE_DEVICES")) == "0,1");
  CHECK(std::string(find_variable(here, "ZE_AFFINITY_MASK")) == "0");
  Environment there = job;
  add_devices_of_slurm(there, {"SLURM_JOB_ID=7", "CUDA_VISIBLE_DEVICES=2,3"});
  CHECK(std::string(find_variable(there, "CUDA_VISIBLE_DEVICES")) == "2,3");
  // As far as it is known before the job runs.
  Environment later = job;
  add_devices_of_slurm(later, slurm_devices_elsewhere(hvdrun, "?"));
  CHECK(later == Environment{"SLURM_JOB_ID=7", "ZE_AFFINITY_MASK=0", "CUDA_VISIBLE_DEVICES_X=9",
                             "CUDA_VISIBLE_DEVICES=?"});
  // An agent's variables outside of Slurm say nothing about the job.
  Environment by_ssh = job;
  add_devices_of_slurm(by_ssh, {"CUDA_VISIBLE_DEVICES=5"});
  CHECK(by_ssh == job);
}

}  // namespace
}  // namespace hvdrun
