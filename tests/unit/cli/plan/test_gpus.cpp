#include "cli/plan/dry_run.h"
#include "cli/plan/launch_plan.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

LaunchPlan gpu_plan(std::vector<std::string> args, const Environment& env = {"HOME=/root"}) {
  Surroundings here;
  here.env = env;
  here.cwd = "/tmp";
  here.hostname = "node7";
  here.count_slots = [] { return 6U; };
  args.emplace_back("true");
  return make_plan(parse_options(args, env), here);
}

const char* visible(const Environment& env) { return find_variable(env, "CUDA_VISIBLE_DEVICES"); }

TEST_CASE("--gpus auto leaves the variable as the user has it", "[gpus]") {
  const Environment own{"HOME=/root", "CUDA_VISIBLE_DEVICES=3"};
  CHECK(visible(gpu_plan({"-np", "2"}).spec.env) == nullptr);
  CHECK(std::string(visible(gpu_plan({"-np", "2", "--gpus", "auto"}, own).spec.env)) == "3");
  CHECK(gpu_plan({"-np", "2", "--gpus", "auto"}).spec.host_env.empty());
}

TEST_CASE("--gpus none hides all GPUs, whatever else says", "[gpus]") {
  const auto spec = gpu_plan({"-np", "2", "--gpus", "none", "-x", "CUDA_VISIBLE_DEVICES=1"}).spec;
  REQUIRE(visible(spec.env) != nullptr);
  CHECK(std::string(visible(spec.env)).empty());
  CHECK(std::string(visible(gpu_plan({}, {"HVDRUN_GPUS=none"}).spec.env)).empty());
}

TEST_CASE("each host's ranks see the GPUs that are listed for it", "[gpus]") {
  const auto spec = gpu_plan({"-H", "a:2,me@b:1,c:1", "--transport", "local", "--gpus",
                              "a=0,2;b=GPU-1f/2,MIG-7a"})
                        .spec;
  REQUIRE(spec.host_env.size() == 3);
  CHECK(spec.host_env[0] == Environment{"CUDA_VISIBLE_DEVICES=0,2"});
  CHECK(spec.host_env[1] == Environment{"CUDA_VISIBLE_DEVICES=GPU-1f/2,MIG-7a"});
  CHECK(spec.host_env[2].empty());
  const auto range =
      gpu_plan({"-H", "n[1-2]:1", "--transport", "local", "--gpus", "n[1-2]=3"}).spec;
  CHECK(range.host_env == std::vector<Environment>(2, {"CUDA_VISIBLE_DEVICES=3"}));
}

TEST_CASE("listed GPUs are the slots of this machine", "[gpus]") {
  const LaunchPlan made = gpu_plan({"--gpus", "localhost=1,4,5"});
  CHECK(made.spec.np() == 3);
  CHECK_THAT(describe_plan(made, {}), Catch::Contains("CUDA_VISIBLE_DEVICES=1,4,5"));
  CHECK(gpu_plan({"--gpus", "auto"}).spec.np() == 6);
}

TEST_CASE("lists of GPUs that do not fit are one line", "[gpus]") {
  CHECK_THROWS_WITH(gpu_plan({"-np", "3", "--gpus", "localhost=0,2"}),
                    "--gpus: host localhost has 3 ranks and 2 GPUs (0,2); give it more GPUs, or "
                    "fewer slots, as in -H localhost:2");
  CHECK_THROWS_WITH(gpu_plan({"-H", "me@a:22:2", "--transport", "local", "--gpus", "a=0"}),
                    "--gpus: host a has 2 ranks and 1 GPU (0); give it more GPUs, or fewer slots, "
                    "as in -H me@a:22:1");
  CHECK_THROWS_WITH(gpu_plan({"-np", "1", "--gpus", "gpu1=0"}),
                    "--gpus: the job has no host 'gpu1'; its hosts are localhost");
}

TEST_CASE("bad values of --gpus", "[gpus]") {
  const auto [value, part] = GENERATE(table<std::string, std::string>({
      {"", "an empty item"},
      {"all",
       "no host in 'all'; write auto, none, or the GPUs of each host, as in gpu1=0,2;gpu2=1"},
      {"0,2", "no host in '0,2'"},
      {"=0", "no host in '=0'"},
      {"localhost=", "'' in 'localhost=' is no GPU"},
      {"localhost=0,", "'' in 'localhost=0,' is no GPU"},
      {"localhost=-1", "'-1' in 'localhost=-1' is no GPU"},
      {"localhost=0,x", "'x' in 'localhost=0,x' is no GPU"},
      {"localhost=12345", "is no GPU"},
      {"localhost=GPU-", "is no GPU"},
      {"localhost=0 1", "is no GPU"},
      {"localhost=0\n", "'0\\n' in"},
      {"localhost=1,2,1", "GPU 1 stands twice in 'localhost=1,2,1'"},
      {"localhost=0;localhost=1", "'localhost' stands there twice"},
      {"localhost=0;", "an empty item"},
      {"localhost:2=0", "'localhost:2' is more than a name"},
      {"me@localhost=0", "'me@localhost' is more than a name"},
      {"loc alhost=0", "a blank in 'loc alhost'"},
  }));
  CAPTURE(value);
  CHECK_THROWS_WITH(gpu_plan({"--gpus", value}),
                    Catch::StartsWith("--gpus") && Catch::Contains(part));
}

}  // namespace
}  // namespace hvdrun
