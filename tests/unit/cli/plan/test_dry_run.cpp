#include "cli/plan/dry_run.h"
#include "cli/text/json_text.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

LaunchPlan two_hosts() {
  LaunchPlan plan;
  plan.spec.ranks = {{{"gpu1", 2}, {"gpu2", 1}}, 3};
  plan.remote = {true, true};
  plan.spec.argv = {"./train", "--name", "it's"};
  plan.spec.programs = {{2, {"./b"}}};
  plan.spec.cwd = "/data";
  plan.spec.env = {"HOME=/root", "LR=0.1"};
  return plan;
}

TEST_CASE("the plan names ranks, places, command and what is added", "[dry run]") {
  const std::string text = describe_plan(two_hosts(), {"HOME=/root"});
  CHECK_THAT(text, Catch::Contains("3 ranks on 2 hosts"));
  CHECK_THAT(text, Catch::Contains("  0     0/2    0/2    gpu1\n  1     1/2    0/1    gpu1\n"
                                   "  2     0/1    1/2    gpu2\n"));
  CHECK_THAT(text, Catch::Contains("command: ./train --name 'it'\\''s'\n  from rank 2 on: ./b\n"));
  CHECK_THAT(text, Catch::Contains("folder:  /data\n"));
  CHECK_THAT(text, Catch::Contains("  LR=0.1\n") && Catch::Contains("  HVD_SIZE=3\n") &&
                       Catch::Contains("  GROUP_WORLD_SIZE=2\n") &&
                       Catch::Contains("  MASTER_ADDR=(at start)\n"));
  CHECK_THAT(text, !Catch::Contains("HOME="));
}

TEST_CASE("the plan tells of restarts", "[dry run]") {
  LaunchPlan plan = two_hosts();
  plan.restarts.most = 4;
  plan.spec.env.emplace_back("HVD_MAX_RESTARTS=4");
  CHECK_THAT(describe_plan(plan, {}), Catch::Contains("restarts: 4 at most, when it fails\n"));
  CHECK_THAT(describe_plan(plan, {}), Catch::Contains("HVD_MAX_RESTARTS=4\n"));
  CHECK_THAT(plan_as_json(plan, {}), Catch::Contains(R"({"np":3,"max_restarts":4,"hosts":)"));
}

TEST_CASE("the plan tells of an elastic job", "[dry run]") {
  LaunchPlan plan = two_hosts();
  CHECK_THAT(describe_plan(plan, {}), !Catch::Contains("elastic"));
  plan.spec.min_np = 2;
  plan.spec.elastic_timeout = std::chrono::seconds(90);
  CHECK_THAT(describe_plan(plan, {}),
             Catch::Contains("elastic: goes on while 2 of 3 are left, once all are in "
                             "hvd::elastic::run; waits 90 s for lost ones\n"));
  CHECK_THAT(plan_as_json(plan, {}),
             Catch::Contains(R"({"np":3,"min_np":2,"elastic_timeout_ms":90000,"hosts":)"));
}

TEST_CASE("the plan has what ranks find of other launchers", "[dry run]") {
  LaunchPlan plan = two_hosts();
  std::string text = describe_plan(plan, {"HOME=/root"});
  for (const char* line : {"  HOROVOD_RANK=0\n", "  HOROVOD_GLOO_RENDEZVOUS_PORT=(at start)\n",
                           "  NCCL_SOCKET_IFNAME=(at start)\n"})
    CHECK_THAT(text, Catch::Contains(line));
  plan.spec.env_compat = {false, false, true};
  text = describe_plan(plan, {"HOME=/root"});
  CHECK_THAT(text, !Catch::Contains("HOROVOD_") && !Catch::Contains("MASTER_PORT"));
  CHECK_THAT(text, Catch::Contains("OMPI_COMM_WORLD_SIZE=3\n"));
  plan = two_hosts();
  plan.spec.ranks = {{{"localhost", 3}}, 3};
  plan.remote = {false};
  CHECK_THAT(describe_plan(plan, {}), Catch::Contains("  NCCL_SOCKET_IFNAME==lo\n"));
}

TEST_CASE("the plan has the devices that ranks find within a Slurm job", "[dry run]") {
  const Environment own = {"SLURM_JOB_ID=7", "CUDA_VISIBLE_DEVICES=0,1"};
  LaunchPlan plan = two_hosts();
  plan.spec.env = {"SLURM_JOB_ID=7"};
  plan.remote = {false, true};
  const auto shows_devices = [&](const std::string& value) {
    const std::string text = plan_as_json(plan, own);
    const auto second = text.find("{\"rank\":2");
    return std::pair(text.substr(0, second).find("CUDA_VISIBLE_DEVICES") != std::string::npos,
                     text.find("\"CUDA_VISIBLE_DEVICES\":\"" + value, second) != std::string::npos);
  };
  CHECK(shows_devices("") == std::pair(false, false));
  plan.ssh.carrier = HostCarrier::srun;
  CHECK(shows_devices("(at start)") == std::pair(false, true));
  plan.spec.host_env = {{}, {"CUDA_VISIBLE_DEVICES=5"}};  // --gpus
  CHECK(shows_devices("5") == std::pair(false, true));
}

TEST_CASE("a value that is given is known before the start", "[dry run]") {
  LaunchPlan plan = two_hosts();
  plan.spec.env = {"MASTER_PORT=29500", "NCCL_SOCKET_IFNAME=ib0", "HVD_JOB_ID=mine"};
  const std::string text = describe_plan(plan, {});
  for (const char* line : {"  MASTER_PORT=29500\n", "  NCCL_SOCKET_IFNAME=ib0\n",
                           "  HVD_JOB_ID=(at start)\n", "  MASTER_ADDR=(at start)\n"})
    CHECK_THAT(text, Catch::Contains(line));
}

TEST_CASE("the plan as JSON has every rank with its environment", "[dry run]") {
  const std::string text = plan_as_json(two_hosts(), {"HOME=/root"});
  CHECK_THAT(text, Catch::StartsWith("{\"np\":3,\"hosts\":[{\"name\":\"gpu1\",\"slots\":2},"
                                     "{\"name\":\"gpu2\",\"slots\":1}],\"ranks\":[{\"rank\":0,"));
  CHECK_THAT(text,
             Catch::Contains("{\"rank\":2,\"host\":\"gpu2\",\"local_rank\":0,\"local_size\":1,"
                             "\"cross_rank\":1,\"cross_size\":2,\"environment\":{\"LR\":"));
  CHECK_THAT(text, Catch::Contains("\"HVD_RANK\":\"2\"") && Catch::Contains("\"NODE_RANK\":\"1\""));
  CHECK_THAT(text, Catch::EndsWith("\"programs\":[{\"first_rank\":0,\"command\":"
                                   "[\"./train\",\"--name\",\"it's\"]},"
                                   "{\"first_rank\":2,\"command\":[\"./b\"]}]}\n"));
}

TEST_CASE("any bytes become a JSON string", "[dry run]") {
  CHECK(json_quoted("a\"\\\n\x01/") == "\"a\\\"\\\\\\u000a\\u0001/\"");
  CHECK(json_quoted("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80") ==
        "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"");
  // Alone, cut off, overlong, a surrogate, too large.
  for (const char* bad :
       {"\xff", "\xc3", "\xe2\x82", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80"})
    CHECK(json_quoted(bad).find("\\ufffd") == 1);
}

}  // namespace
}  // namespace hvdrun
