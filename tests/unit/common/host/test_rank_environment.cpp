#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>

#include "common/base/launch_record.h"
#include "common/host/rank_environment.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

WorkerPlace sample_place() {
  WorkerPlace place;
  place.job_id = "00ff";
  place.agent = "@agent";
  place.host_name = "gpu1";
  place.epoch = 1;
  place.rank = 5;
  place.size = 8;
  place.local_rank = 1;
  place.local_size = 4;
  place.cross_rank = 1;
  place.cross_size = 2;
  place.node_rank = 1;
  place.node_count = 2;
  place.usable_cores = 10;
  place.master_addr = "gpu0";
  place.master_port = 4711;
  place.horovod = {4712,
                   "node1",
                   {.rank = 5, .local_size = 3, .cross_rank = 2, .cross_size = 5, .size = 8},
                   true};
  place.host_address = "10.0.0.2";
  place.interface = "eth1";
  place.is_late = true;
  place.sync_folder = "/tmp/files";
  return place;
}

std::map<std::string, std::string> as_map(const Environment& env) {
  std::map<std::string, std::string> map;
  for (const std::string& entry : env) {
    const auto equals = entry.find('=');
    const bool is_new = map.emplace(entry.substr(0, equals), entry.substr(equals + 1)).second;
    INFO(entry);
    CHECK(is_new);  // a name that stands twice is read differently by different programs
  }
  return map;
}

TEST_CASE("a variable that hvdrun sets it does not inherit", "[environment]") {
  using Rule = RankVariable::Rule;
  for (const RankVariable& row : rank_variables()) {
    CAPTURE(row.name);
    const bool is_let_through =
        row.rule == Rule::kept || row.rule == Rule::dropped || row.rule == Rule::of_plan;
    CHECK((row.value == nullptr || !is_let_through));
  }
}

TEST_CASE("the contract stands in a worker's environment", "[environment]") {
  auto env = as_map(worker_environment({"PATH=/bin", "EMPTY="}, sample_place()));
  const std::string record = " " + env["HVD_LAUNCH_SET"] + " ";
  env.erase("HVD_LAUNCH_SET");
  const std::map<std::string, std::string> expected = {
      {"PATH", "/bin"},
      {"EMPTY", ""},
      {"HVD_JOB_ID", "00ff"},
      {"HVD_AGENT", "@agent"},
      {"HVD_EPOCH", "1"},
      {"HVD_START", "0"},
      {"HVD_RESTART_COUNT", "0"},
      {"HVD_MAX_RESTARTS", "0"},
      {"HVD_RANK", "5"},
      {"HVD_SIZE", "8"},
      {"HVD_LOCAL_RANK", "1"},
      {"HVD_LOCAL_SIZE", "4"},
      {"HVD_CROSS_RANK", "1"},
      {"HVD_CROSS_SIZE", "2"},
      {"HVD_HOSTNAME", "gpu1"},
      {"RANK", "5"},
      {"WORLD_SIZE", "8"},
      {"LOCAL_RANK", "1"},
      {"LOCAL_WORLD_SIZE", "4"},
      {"GROUP_RANK", "1"},
      {"GROUP_WORLD_SIZE", "2"},
      {"NODE_RANK", "1"},
      {"ROLE_RANK", "5"},
      {"ROLE_WORLD_SIZE", "8"},
      {"ROLE_NAME", "default"},
      {"MASTER_ADDR", "gpu0"},
      {"MASTER_PORT", "4711"},
      {"TORCHELASTIC_RESTART_COUNT", "0"},
      {"TORCHELASTIC_MAX_RESTARTS", "0"},
      {"TORCHELASTIC_RUN_ID", "00ff"},
      {"OMPI_COMM_WORLD_RANK", "5"},
      {"OMPI_COMM_WORLD_SIZE", "8"},
      {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
      {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"},
      {"OMPI_COMM_WORLD_NODE_RANK", "1"},
      {"OMPI_UNIVERSE_SIZE", "8"},
      {"MPI_LOCALRANKID", "1"},
      {"MPI_LOCALNRANKS", "4"},
      {"HOROVOD_ELASTIC", "1"},
      {"HOROVOD_RANK", "5"},
      {"HOROVOD_SIZE", "8"},
      {"HOROVOD_LOCAL_RANK", "0"},
      {"HOROVOD_LOCAL_SIZE", "3"},
      {"HOROVOD_CROSS_RANK", "2"},
      {"HOROVOD_CROSS_SIZE", "5"},
      {"HOROVOD_HOSTNAME", "node1"},
      {"HOROVOD_CONTROLLER", "gloo"},
      {"HOROVOD_CPU_OPERATIONS", "gloo"},
      {"HOROVOD_GLOO_RENDEZVOUS_ADDR", "127.0.0.1"},
      {"HOROVOD_GLOO_RENDEZVOUS_PORT", "4712"},
      {"HOROVOD_GLOO_IFACE", "eth1"},
      {"NCCL_SOCKET_IFNAME", "=eth1"},
      {"GLOO_SOCKET_IFNAME", "eth1"},
      {"HVD_HOST_ADDRESS", "10.0.0.2"},
      {"HVD_LATE", "1"},
      {"OCI__SYNC_DIR", "/tmp/files"},
      {"OMP_NUM_THREADS", "2"},
  };
  CHECK(env == expected);
  for (const auto& [name, value] : expected) {
    CAPTURE(name);
    const bool is_users = name == "PATH" || name == "EMPTY";
    CHECK((record.find(" " + name + ":") == std::string::npos) == is_users);
  }
}

TEST_CASE("of an outer job of hvdrun nothing is left, but what was set since", "[environment]") {
  Environment env = worker_environment({"PATH=/bin", "EMPTY=", "NCCL_DEBUG=INFO"}, sample_place());
  SECTION("nothing") {
    drop_stale_variables(env);
    CHECK(env == Environment{"PATH=/bin", "EMPTY=", "NCCL_DEBUG=INFO"});
  }
  SECTION("a program's own settings") {
    set_variable(env, "OMP_NUM_THREADS", "7");
    set_variable(env, "NCCL_SOCKET_IFNAME", "=eth2");
    drop_stale_variables(env);
    CHECK(as_map(env) == as_map({"PATH=/bin", "EMPTY=", "NCCL_DEBUG=INFO", "OMP_NUM_THREADS=7",
                                 "NCCL_SOCKET_IFNAME==eth2"}));
  }
  SECTION("what was the user's before, whatever the value") {
    env = worker_environment({"OMP_NUM_THREADS=2", "GLOO_SOCKET_IFNAME=eth1"}, sample_place());
    drop_stale_variables(env);
    CHECK(env == Environment{"OMP_NUM_THREADS=2", "GLOO_SOCKET_IFNAME=eth1"});
  }
}

TEST_CASE("names of the user's that look like another launcher's stay", "[environment]") {
  const Environment users = {"GROUP_ID=1000",     "ROLE_ARN=x",    "RANKS=2",
                             "WORLD=1",           "LOCAL=en",      "MASTER=spark",
                             "OMPI_MCA_btl=self", "MPI_HOME=/opt", "NODE_ENV=p"};
  Environment env = users;
  env.insert(env.end(), {"GROUP_RANK=1", "ROLE_NAME=default", "ROLE_WORLD_SIZE=2", "PMI_FD=3",
                         "OMPI_MCA_ess_base_jobid=1"});
  drop_stale_variables(env);
  CHECK(env == users);
}

TEST_CASE("a record names variables by name and value", "[environment]") {
  std::string record;
  add_to_record(record, "A", "");
  add_to_record(record, "B", "a");
  CHECK(record == "A:811c9dc5 B:e40c292c");  // FNV-1a
  const auto left = [&](Environment env) {
    env.push_back("HVD_LAUNCH_SET=" + record);
    drop_recorded_variables(env);
    return env;
  };
  CHECK(left({"A=", "B=a"}).empty());
  CHECK(left({"A=x", "B=", "AB=", "a="}) == Environment{"A=x", "B=", "AB=", "a="});
  record = " A:811c9dc5  B:e40c292 x :: C";
  CHECK(left({"A=", "B=a", "C=", "x=", "no"}) == Environment{"B=a", "C=", "x=", "no"});
}

Environment without_stale(Environment env) {
  drop_stale_variables(env);
  return env;
}

// The number of variables that begin with one of these.
std::ptrdiff_t count_with(const Environment& env, const std::vector<std::string>& prefixes) {
  return std::count_if(env.begin(), env.end(), [&](const std::string& entry) {
    return std::any_of(prefixes.begin(), prefixes.end(),
                       [&](const std::string& prefix) { return entry.starts_with(prefix); });
  });
}

TEST_CASE("a job that has started again says so in each rank", "[environment]") {
  WorkerPlace place;
  place.start = 1;
  const auto env = as_map(
      worker_environment({"HVD_RESTART_COUNT=2", "HVD_MAX_RESTARTS=5", "HVD_START=9"}, place));
  CHECK(env.at("HVD_RESTART_COUNT") == "2");
  CHECK(env.at("HVD_MAX_RESTARTS") == "5");
  CHECK(env.at("HVD_START") == "1");
  CHECK(env.at("TORCHELASTIC_RESTART_COUNT") == "3");
  CHECK(env.at("TORCHELASTIC_MAX_RESTARTS") == "5");
}

TEST_CASE("each other launcher's variables can be left out, and HVD_* stay", "[environment]") {
  const std::vector<std::string> horovod = {"HOROVOD_"};
  const std::vector<std::string> torch = {"RANK=", "WORLD_",  "LOCAL_",        "GROUP_", "NODE_",
                                          "ROLE_", "MASTER_", "TORCHELASTIC_", "GLOO_"};
  const std::vector<std::string> mpi_ids = {"OMPI_", "MPI_"};
  for (int mask = 0; mask < 8; ++mask) {
    CAPTURE(mask);
    WorkerPlace place = sample_place();
    place.compat = {(mask & 1) != 0, (mask & 2) != 0, (mask & 4) != 0};
    // An outer job's are dropped in any case.
    const auto env = worker_environment(
        without_stale({"HOROVOD_RANK=9", "MASTER_ADDR=x", "TORCHELASTIC_USE_AGENT_STORE=True",
                       "OMPI_COMM_WORLD_RANK=9"}),
        place);
    CHECK(count_with(env, {"HVD_"}) == 16);
    CHECK(count_with(env, horovod) == (place.compat.horovod ? 13 : 0));
    CHECK(count_with(env, torch) == (place.compat.torch ? 16 : 0));
    CHECK(count_with(env, {"NCCL_"}) == (place.compat.horovod || place.compat.torch ? 1 : 0));
    CHECK(count_with(env, mpi_ids) == (place.compat.mpi_ids ? 8 : 0));
    CHECK(count_with(env, {"OMP_NUM_THREADS="}) == 1);
  }
}

TEST_CASE("one host has no address that others use", "[environment]") {
  WorkerPlace place = sample_place();
  place.host_address.clear();
  place.interface = "lo";
  const auto env = as_map(worker_environment({"HVD_HOST_ADDRESS=x"}, place));
  CHECK(env.count("HVD_HOST_ADDRESS") == 0);
  CHECK(env.count("GLOO_SOCKET_IFNAME") == 0);
  CHECK(env.at("NCCL_SOCKET_IFNAME") == "=lo");
}

TEST_CASE("without a store a worker finds nothing of Horovod", "[environment]") {
  WorkerPlace place = sample_place();
  place.horovod.port = 0;
  const Environment outer = {"HOROVOD_GLOO_RENDEZVOUS_PORT=1"};
  CHECK(count_with(worker_environment(without_stale(outer), place), {"HOROVOD_"}) == 0);
}

TEST_CASE("ranks of an outer job are overwritten or dropped", "[environment]") {
  const auto env = as_map(worker_environment(
      without_stale({"RANK=9", "HVD_RANK=9", "HOROVOD_RANK=9", "HOROVOD_GLOO_RENDEZVOUS_ADDR=x",
                     "PMI_RANK=9", "PMI_FD=7", "PMIX_RANK=9", "PMIX_NAMESPACE=x", "SLURM_PROCID=9",
                     "SLURM_STEP_ID=1", "HOROVOD_ELASTIC=1", "OMPI_COMM_WORLD_RANK=9",
                     "OMPI_MCA_orte_x=1", "MV2_COMM_WORLD_RANK=9",
                     "TORCHELASTIC_USE_AGENT_STORE=True", "HYDI_CONTROL_FD=3"}),
      sample_place()));
  CHECK(env.at("RANK") == "5");
  CHECK(env.at("HVD_RANK") == "5");
  CHECK(env.at("OMPI_COMM_WORLD_RANK") == "5");
  CHECK(env.at("HOROVOD_RANK") == "5");
  CHECK(env.at("HOROVOD_GLOO_RENDEZVOUS_ADDR") == "127.0.0.1");
  for (const char* name : {"PMI_RANK", "PMI_FD", "PMIX_RANK", "PMIX_NAMESPACE", "SLURM_PROCID",
                           "SLURM_STEP_ID", "OMPI_MCA_orte_x", "MV2_COMM_WORLD_RANK",
                           "TORCHELASTIC_USE_AGENT_STORE", "HYDI_CONTROL_FD"}) {
    CAPTURE(name);
    CHECK(env.count(name) == 0);
  }
}

TEST_CASE("a Horovod program asks for its next place in an elastic job only", "[environment]") {
  WorkerPlace place = sample_place();
  CHECK(as_map(worker_environment({}, place)).at("HOROVOD_ELASTIC") == "1");
  place.horovod.elastic = false;
  CHECK(as_map(worker_environment({"HOROVOD_ELASTIC=1"}, place)).count("HOROVOD_ELASTIC") == 0);
}

TEST_CASE("the user's own settings stay", "[environment]") {
  const auto env = as_map(worker_environment(
      {"OMP_NUM_THREADS=7", "OMPI_MCA_btl=self", "SLURM_JOB_ID=4", "HOROVOD_TIMELINE=f",
       "HVD_COLLECTIVE_TIMEOUT=5", "HOROVOD_GLOO_TIMEOUT_SECONDS=60", "NCCL_DEBUG=INFO",
       "HOROVOD_GLOO_IFACE=eth7", "NCCL_SOCKET_IFNAME=eth0", "GLOO_SOCKET_IFNAME=eth8",
       "RANKING=1"},
      sample_place()));
  CHECK(env.at("OMP_NUM_THREADS") == "7");
  CHECK(env.at("OMPI_MCA_btl") == "self");
  CHECK(env.at("SLURM_JOB_ID") == "4");
  CHECK(env.at("HOROVOD_TIMELINE") == "f");
  CHECK(env.at("HVD_COLLECTIVE_TIMEOUT") == "5");
  CHECK(env.at("HOROVOD_GLOO_TIMEOUT_SECONDS") == "60");
  CHECK(env.at("HOROVOD_GLOO_IFACE") == "eth7");
  CHECK(env.at("GLOO_SOCKET_IFNAME") == "eth8");
  CHECK(env.at("NCCL_SOCKET_IFNAME") == "eth0");
  CHECK(env.at("NCCL_DEBUG") == "INFO");
  CHECK(env.at("RANKING") == "1");
}

TEST_CASE("what is given to this job stays, but a rank's own place", "[environment]") {
  const Environment given = {"RANK=9",      "HVD_RANK=9",        "ROLE_ARN=a",      "GROUP_NAME=g",
                             "PMI_DEBUG=1", "MASTER_PORT=29500", "MASTER_ADDR=head"};
  const Environment env = worker_environment(given, sample_place());
  const auto map = as_map(env);
  CHECK(map.size() == env.size());  // none is there twice
  CHECK(map.at("RANK") == "5");
  CHECK(map.at("HVD_RANK") == "5");
  CHECK(map.at("ROLE_ARN") == "a");
  CHECK(map.at("GROUP_NAME") == "g");
  CHECK(map.at("PMI_DEBUG") == "1");
  CHECK(map.at("MASTER_PORT") == "29500");
  CHECK(map.at("MASTER_ADDR") == "head");
}

TEST_CASE("a rank gets at least one thread", "[environment]") {
  WorkerPlace place = sample_place();
  place.usable_cores = 2;
  CHECK(as_map(worker_environment({}, place)).at("OMP_NUM_THREADS") == "1");
}

TEST_CASE("whatever hvdrun sets is dropped when it is inherited", "[environment]") {
  // As a rank that is a launcher itself finds it, and by its name alone where the record is lost.
  const Environment inherited = worker_environment({}, sample_place());
  for (const RankVariable& row : rank_variables()) {
    if (row.value == nullptr) continue;
    const std::string name(row.name);
    CAPTURE(name);
    CHECK(find_variable(inherited, name) != nullptr);
    CHECK(find_variable(without_stale(inherited), name) == nullptr);
    const bool is_users = row.rule == RankVariable::Rule::users;
    CHECK((find_variable(without_stale({name + "=x"}), name) != nullptr) == is_users);
  }
}

TEST_CASE("a name has one row, the longest that covers it", "[environment]") {
  std::set<std::string_view> names;
  for (const RankVariable& row : rank_variables()) CHECK(names.insert(row.name).second);
  CHECK(find_rank_variable("OMPI_MCA_btl")->name == "OMPI_MCA_*");
  CHECK(find_rank_variable("OMPI_MCA_pmix_x")->name == "OMPI_MCA_pmix*");
  CHECK(find_rank_variable("TORCHELASTIC_RUN_ID")->name == "TORCHELASTIC_RUN_ID");
  CHECK(find_rank_variable("TORCHELASTIC_X")->name == "TORCHELASTIC_*");
  CHECK(find_rank_variable("RANKING") == nullptr);
  CHECK(find_rank_variable("PMI") == nullptr);
}

TEST_CASE("the plan's list and Slurm's devices are below a rank's own rows", "[environment]") {
  const auto env = as_map(worker_environment(
      {"A=job", "SLURM_JOB_ID=7"}, sample_place(), {"A=host", "RANK=9", "ZE_AFFINITY_MASK=1"},
      {"SLURM_JOB_ID=7", "CUDA_VISIBLE_DEVICES=2,3", "ZE_AFFINITY_MASK=8", "HOME=/agent"}));
  CHECK(env.at("A") == "host");
  CHECK(env.at("RANK") == "5");
  CHECK(env.at("ZE_AFFINITY_MASK") == "1");
  CHECK(env.at("CUDA_VISIBLE_DEVICES") == "2,3");
  CHECK(env.count("HOME") == 0);
}

// The words in backquotes of the lines of docs/environment.md that `takes` accepts.
template <class Takes>
std::set<std::string> names_in_doc(Takes&& takes) {
  const char* const source = std::getenv("HVD_TEST_SOURCE");  // NOLINT(concurrency-mt-unsafe)
  REQUIRE(source != nullptr);
  std::ifstream doc(std::string(source) + "/docs/environment.md");
  std::set<std::string> names;
  for (std::string line; std::getline(doc, line);) {
    if (!takes(line)) continue;
    for (std::size_t at = 0; (at = line.find('`', at)) != std::string::npos; ++at) {
      const std::size_t end = line.find('`', at + 1);
      names.insert(line.substr(at + 1, end - at - 1));
      at = end;
    }
  }
  return names;
}

TEST_CASE("the document has every variable of the table, and no other", "[environment]") {
  std::set<std::string> set;
  std::set<std::string> dropped;
  for (const RankVariable& row : rank_variables()) {
    const bool is_set = row.value != nullptr || row.rule == RankVariable::Rule::of_plan;
    if (is_set) set.emplace(row.name);
    if (row.rule == RankVariable::Rule::dropped) dropped.emplace(row.name);
    if (row.rule == RankVariable::Rule::kept) dropped.emplace(row.name);
  }
  set.emplace("CUDA_VISIBLE_DEVICES");  // by --gpus, which is no matter of a rank
  bool in_table = false;
  CHECK(names_in_doc([&](std::string& line) {
          in_table = line.starts_with("| `");
          line.resize(std::min(line.size(), line.find('|', 2)));  // the first column
          return in_table;
        }) == set);
  CHECK(names_in_doc([](const std::string& line) {
          return line.starts_with("* never set, and dropped:");
        }) == dropped);
}

}  // namespace
}  // namespace hvdrun
