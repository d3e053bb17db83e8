#include <algorithm>

#include "cli/openers/srun/srun_command.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

TEST_CASE("a host is a step of one task that shares all with the job's other steps", "[srun]") {
  const auto argv = srun_command("tux7", std::nullopt, "run it");
  const auto has = [&](const std::string& word) {
    return std::find(argv.begin(), argv.end(), word) != argv.end();
  };
  CHECK(argv.front() == "srun");
  for (const char* const word : {"--nodes=1", "--ntasks=1", "--nodelist=tux7", "--overlap",
                                 "--mem=0", "--cpu-bind=none", "--mpi=none", "--unbuffered"})
    CHECK(has(word));
  // These would take CPUs away, make lines of the bytes, or bring the user's whole environment.
  for (const char* const word : {"--exact", "--exclusive", "--label", "--pty", "--export=ALL"})
    CHECK_FALSE(has(word));
  CHECK(std::vector<std::string>(argv.end() - 3, argv.end()) ==
        std::vector<std::string>{"/bin/sh", "-c", "run it"});
  CHECK_FALSE(std::any_of(argv.begin(), argv.end(),
                          [](const std::string& word) { return word.starts_with("--het-group"); }));
  CHECK(srun_by_hand("tux7", std::nullopt) ==
        "srun --overlap --nodes=1 --ntasks=1 --nodelist=tux7 true");
}

TEST_CASE("a host of a job of several components is named with its own", "[srun]") {
  CHECK(srun_command("tux7", 2, "run it")[1] == "--het-group=2");
  CHECK(srun_by_hand("tux7", 0) ==
        "srun --het-group=0 --overlap --nodes=1 --ntasks=1 --nodelist=tux7 true");
}

TEST_CASE("srun takes no options from the variables of an outer job", "[srun]") {
  const Environment env = {"PATH=/bin",
                           "SLURM_JOB_ID=7",
                           "SLURM_JOBID=7",
                           "SLURM_CONF=/etc/s.conf",
                           "SLURM_WORKING_CLUSTER=a:b:1:2",
                           "SLURM_SPANK_SITE=1",
                           "_SLURM_SPANK_OPTION_x=1",
                           "SLURM_LABELIO=1",
                           "SLURM_NTASKS=4",
                           "SLURM_NTASKS_PER_NODE=4",
                           "SLURM_CPUS_PER_TASK=8",
                           "SRUN_CPUS_PER_TASK=8",
                           "SLURM_GPUS_PER_TASK=1",
                           "SLURM_MEM_PER_CPU=100",
                           "SLURM_EXCLUSIVE=1",
                           "SLURM_EXACT=1",
                           "SLURM_STDINMODE=none",
                           "SLURM_HOSTFILE=h",
                           "SLURMD_NODENAME=tux1",
                           "SLURMISH=1"};
  CHECK(srun_environment(env) == Environment{"PATH=/bin", "SLURM_JOB_ID=7", "SLURM_JOBID=7",
                                             "SLURM_CONF=/etc/s.conf",
                                             "SLURM_WORKING_CLUSTER=a:b:1:2", "SLURM_SPANK_SITE=1",
                                             "_SLURM_SPANK_OPTION_x=1", "SLURMISH=1"});
}

TEST_CASE("why a step ends stands between stars, or is an error of srun", "[srun]") {
  CHECK(step_end_in("slurmstepd: error: *** STEP 7.1 ON tux2 CANCELLED AT 2026-01-31T12:00:00 DUE "
                    "TO TIME LIMIT ***") ==
        "STEP 7.1 ON tux2 CANCELLED AT 2026-01-31T12:00:00 DUE TO TIME LIMIT");
  for (const char* const line :
       {"", "***", "*** and no end", "srun: error: tux2: task 0: Killed", "hvd-agent: *** on tux2"})
    CHECK(step_end_in(line).empty());
  CHECK(srun_error_in("srun: error: Unable to confirm allocation for job 9: Invalid job id") ==
        "Unable to confirm allocation for job 9: Invalid job id");
  for (const char* const line :
       {"", "srun: Job step aborted", "srun: error: tux2: task 0: Exited with exit code 1",
        "slurmstepd: error: srun: error: x"})
    CHECK(srun_error_in(line).empty());
}

}  // namespace
}  // namespace hvdrun
