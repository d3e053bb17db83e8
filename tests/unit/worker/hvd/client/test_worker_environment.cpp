#include <map>

#include <hvd/hvd.h>

#include "tests/catch.h"
#include "worker/hvd/client/worker_environment.h"

using namespace hvdrun;
using std::chrono::milliseconds;

namespace {

using Variables = std::map<std::string, std::string>;

EnvironmentLookup lookup(Variables variables) {
  return [variables = std::move(variables)](const char* name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

Variables complete() {
  return {{"HVD_AGENT", "@x"},     {"HVD_JOB_ID", "0123456789abcdef0123456789abcdef"},
          {"HVD_EPOCH", "4"},      {"HVD_RANK", "2"},
          {"HVD_SIZE", "6"},       {"HVD_LOCAL_RANK", "1"},
          {"HVD_LOCAL_SIZE", "3"}, {"HVD_CROSS_RANK", "0"},
          {"HVD_CROSS_SIZE", "2"}};
}

std::string error_text(const Variables& variables) {
  try {
    read_worker_environment(lookup(variables));
  } catch (const hvd::Error& error) {
    CHECK(error.code() == hvd::ErrorCode::unavailable);
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("the launcher's variables are read", "[client]") {
  const auto env = read_worker_environment(lookup(complete()));
  REQUIRE(env.has_value());
  CHECK(env->agent == "@x");
  CHECK(env->epoch == 4);
  CHECK(env->rank == 2);
  CHECK(env->size == 6);
  CHECK(env->local_rank == 1);
  CHECK(env->local_size == 3);
  CHECK(env->cross_rank == 0);
  CHECK(env->cross_size == 2);
  CHECK_FALSE(read_worker_environment(lookup({{"PATH", "/bin"}})).has_value());
}

TEST_CASE("a missing or damaged variable is named", "[client]") {
  for (const auto& [name, value] : complete()) {
    Variables variables = complete();
    variables.erase(name);
    CHECK(error_text(variables).find(name + " is missing") != std::string::npos);
    for (const char* bad : {"", "-1", "1x", " 1", "99999999999"}) {
      variables[name] = bad;
      if (name == "HVD_AGENT" && *bad != '\0') continue;
      CAPTURE(name, bad);
      CHECK(error_text(variables).find(name) != std::string::npos);
    }
  }
  Variables variables = complete();
  variables["HVD_RANK"] = "6";
  CHECK(error_text(variables).find("HVD_RANK=6 does not fit HVD_SIZE=6") != std::string::npos);
}

TEST_CASE("another launcher's ranks give a warning", "[client]") {
  const auto warning = foreign_launcher_warning(lookup({{"WORLD_SIZE", "4"}}));
  CHECK(warning.value_or("") ==
        "hvd: WORLD_SIZE=4 in the environment, but this process was not started by hvdrun: it is "
        "rank 0 of 1. Start it with: hvdrun -np 4 ...");
  CHECK(foreign_launcher_warning(lookup({{"OMPI_COMM_WORLD_SIZE", "2"}})).has_value());
  CHECK(foreign_launcher_warning(lookup({{"PMI_SIZE", "2"}})).has_value());
  CHECK(foreign_launcher_warning(lookup({{"HOROVOD_SIZE", "2"}})).has_value());
  CHECK_FALSE(foreign_launcher_warning(lookup({{"WORLD_SIZE", "1"}})).has_value());
  CHECK_FALSE(foreign_launcher_warning(lookup({{"WORLD_SIZE", "all"}})).has_value());
  CHECK_FALSE(foreign_launcher_warning(lookup({{"SLURM_NTASKS", "8"}})).has_value());
  CHECK(
      foreign_launcher_warning(lookup({{"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"}})).has_value());
}

TEST_CASE("time limits are seconds", "[client]") {
  const auto read = [](const std::string& text) {
    return read_timeout(lookup({{"T", text}}), "T", milliseconds(5));
  };
  CHECK(read_timeout(lookup({}), "T", milliseconds(5)) == milliseconds(5));
  CHECK(read("30") == milliseconds(30'000));
  CHECK(read("0.5") == milliseconds(500));
  CHECK(read("0.0001") == milliseconds(1));
  for (const char* bad : {"", "x", "1s", " 1", "0", "-1", "inf", "nan", "1e300", "1,5"}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(read(bad), hvd::Error);
  }
}

TEST_CASE("a rank's compute threads are OpenMP's", "[client]") {
  const auto read = [](const std::string& text) {
    return compute_threads(lookup({{"OMP_NUM_THREADS", text}}));
  };
  CHECK(compute_threads(lookup({})) == 1);
  CHECK(read("1") == 1);
  CHECK(read("12") == 12);
  CHECK(read("4,2") == 4);
  for (const char* bad : {"", "0", "-3", "many", "99999999999"}) {
    CAPTURE(bad);
    CHECK(read(bad) == 1);
  }
}
