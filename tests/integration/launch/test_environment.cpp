#include <filesystem>
#include <unistd.h>

#include "tests/catch.h"
#include "tests/integration/helpers/run_program.h"

namespace hvdrun::test {
namespace {

TEST_CASE("ranks know their place, over several hosts too", "[environment]") {
  const char* const script = R"(echo $HVD_HOSTNAME $HVD_RANK $HVD_SIZE $HVD_LOCAL_RANK \
$HVD_LOCAL_SIZE $HVD_CROSS_RANK $HVD_CROSS_SIZE $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE \
$NODE_RANK $OMPI_COMM_WORLD_RANK $OMPI_COMM_WORLD_SIZE $OMPI_COMM_WORLD_LOCAL_RANK)";
  // An agent for each host, all on this machine.
  const RunResult result =
      hvdrun({"--transport", "local", "-np", "5", "-H", "a:2,b:4", "sh", "-c", script});
  CHECK(result.exit_code == 0);
  for (const char* line : {"[0]<stdout>:a 0 5 0 2 0 2 0 5 0 2 0 0 5 0\n",
                           "[1]<stdout>:a 1 5 1 2 0 2 1 5 1 2 0 1 5 1\n",
                           "[2]<stdout>:b 2 5 0 3 1 2 2 5 0 3 1 2 5 0\n",
                           "[3]<stdout>:b 3 5 1 3 1 2 3 5 1 3 1 3 5 1\n",
                           "[4]<stdout>:b 4 5 2 3 0 1 4 5 2 3 1 4 5 2\n"}) {
    CAPTURE(line);
    CHECK(result.out.find(line) != std::string::npos);
  }
}

TEST_CASE("a launcher inside a job hands out its own ranks", "[environment]") {
  const RunResult result =
      hvdrun({"-np", "1", build_path("hvdrun"), "-np", "2", "sh", "-c", "echo $RANK/$HVD_SIZE"},
             {.env = {{"HOROVOD_RANK", "9"}, {"PMI_RANK", "9"}}});
  CHECK(result.exit_code == 0);
  CHECK(result.out.find("[0]<stdout>:[0]<stdout>:0/2\n") != std::string::npos);
  CHECK(result.out.find("[0]<stdout>:[1]<stdout>:1/2\n") != std::string::npos);
}

TEST_CASE("a launcher inside a job has the user's settings, not the outer job's", "[environment]") {
  const char* const show =
      "echo ${NCCL_SOCKET_IFNAME-none} ${HOROVOD_GLOO_IFACE-none} ${NCCL_DEBUG-none} "
      "$OMP_NUM_THREADS";
  const auto run_plain = [](std::vector<std::string> words) {
    words.insert(words.begin(), {"env", "-u", "OMP_NUM_THREADS", "-u", "NCCL_SOCKET_IFNAME",
                                 build_path("hvdrun"), "--tag-output", "off"});
    return run({.args = std::move(words)}).out;
  };
  const auto within = [&](const std::string& set_before) {
    return run_plain(
        {"-np", "1", "-x", "NCCL_DEBUG=INFO", "sh", "-c",
         set_before + "exec \"$0\" --env-compat none -np 2 --tag-output off sh -c \"$1\"",
         build_path("hvdrun"), show});
  };
  const std::string alone =
      run_plain({"--env-compat", "none", "-np", "2", "-x", "NCCL_DEBUG=INFO", "sh", "-c", show});
  REQUIRE(alone.starts_with("none none INFO "));
  CHECK(within("") == alone);
  const std::string own = "lo none INFO 9\n";
  CHECK(within("export NCCL_SOCKET_IFNAME=lo OMP_NUM_THREADS=9; ") == own + own);
  // A third launch, and what options of the first have set.
  CHECK(run_plain({"--fusion-threshold-mb",
                   "3",
                   "--no-stall-check",
                   "-np",
                   "1",
                   "-x",
                   "NCCL_DEBUG=INFO",
                   "-x",
                   "HOROVOD_CYCLE_TIME=2",
                   build_path("hvdrun"),
                   "--tag-output",
                   "off",
                   "-np",
                   "1",
                   build_path("hvdrun"),
                   "--tag-output",
                   "off",
                   "--env-compat",
                   "none",
                   "-np",
                   "1",
                   "sh",
                   "-c",
                   "env | grep -e ^HOROVOD -e ^NCCL | sort"}) ==
        "HOROVOD_CYCLE_TIME=2\nNCCL_DEBUG=INFO\n");
}

// An outer job of several hosts sets all that there is; the inner one asks for nothing of it.
TEST_CASE("a job within a job finds what it finds alone", "[environment]") {
  const std::string inner = build_path("hvdrun") +
                            " --tag-output off --env-compat none -np 1 "
                            "sh -c 'env | grep -v -e ^HVD_JOB_ID -e ^HVD_AGENT -e ^HVD_LAUNCH_SET "
                            "-e ^_= -e ^SHLVL= | sort'";
  const auto run_plain = [](std::vector<std::string> words) {
    words.insert(words.begin(), {"env", "-u", "OMP_NUM_THREADS"});
    return run({.args = std::move(words)}).out;
  };
  const std::string alone = run_plain({"sh", "-c", inner});
  REQUIRE(alone.find("\nHVD_RANK=0\n") != std::string::npos);
  CHECK(run_plain({build_path("hvdrun"), "--tag-output", "off", "--transport", "local", "-H",
                   "a:1,b:1", "-np", "1", "sh", "-c", inner}) == alone);
  CHECK(run_plain({build_path("hvdrun"), "--tag-output", "off", "--transport", "local", "-H",
                   "a:1,b:1", "-np", "2", "sh", "-c", "test $RANK = 0 || " + inner}) == alone);
}

// As another host's home may lie elsewhere.
TEST_CASE("ranks start in the folder by the name that the user has for it", "[environment]") {
  const TempFolder folder;
  const std::string real = folder.path() + "/real";
  const std::string link = folder.path() + "/link";
  std::filesystem::create_directory(real);
  std::filesystem::create_directory_symlink(real, link);
  const auto start = [&](const std::string& pwd) {
    const RunResult result =
        hvdrun({"--dry-run", "-np", "1", "true"}, {.env = {{"PWD", pwd}}, .cwd = link});
    const auto at = result.out.find("folder:  ");
    REQUIRE(at != std::string::npos);
    return result.out.substr(at + 9, result.out.find('\n', at) - at - 9);
  };
  CHECK(start(link) == link);
  CHECK(start(real) == real);
  CHECK(start(folder.path()) == real);  // somebody else's
  CHECK(start(folder.path() + "/none") == real);
  CHECK(start("") == real);
  CHECK(start("../link") == real);
  CHECK(start(folder.path() + "/real/../link") == real);
  CHECK(hvdrun({"--tag-output", "off", "-np", "1", "sh", "-c", "pwd; pwd -P; echo $PWD"},
               {.env = {{"PWD", link}}, .cwd = link})
            .out == link + "\n" + real + "\n" + link + "\n");
}

TEST_CASE("a folder that is gone is needed only by who starts in it", "[environment]") {
  const TempFolder folder;
  const auto from_gone = [&](const std::string& words) {
    return run({.args = {"sh", "-c", "mkdir gone; cd gone; rmdir ../gone; exec \"$0\" " + words,
                         build_path("hvdrun")},
                .cwd = folder.path()});
  };
  const RunResult there = from_gone("--tag-output off --chdir " + folder.path() + " -np 2 pwd");
  CHECK(there.err == "");
  CHECK(there.out == folder.path() + "\n" + folder.path() + "\n");
  CHECK(there.exit_code == 0);
  CHECK(from_gone("--version").exit_code == 0);
  for (const char* words : {"-np 1 true", "--chdir sub -np 1 true"}) {
    const RunResult refused = from_gone(words);
    CHECK(refused.exit_code == 64);
    CHECK(refused.err ==
          "hvdrun: the working folder was removed; go to one that is there, or name one for the "
          "ranks: --chdir /FOLDER\n");
  }
}

TEST_CASE("variables: -x sets, everything else goes along", "[environment]") {
  const RunResult result =
      hvdrun({"-np", "1", "-x", "SET=by x", "-x", "OVER=new", "sh", "-c", "echo $SET,$OVER,$GOES"},
             {.env = {{"OVER", "old"}, {"GOES", "along"}}});
  CHECK(result.out == "[0]<stdout>:by x,new,along\n");
}

TEST_CASE("--gpus says what each host's ranks see", "[environment]") {
  const auto seen = [](std::vector<std::string> args) {
    args.insert(args.end(), {"sh", "-c", "echo \"$HVD_HOSTNAME ${CUDA_VISIBLE_DEVICES-unset}\""});
    return hvdrun(args, {.env = {{"CUDA_VISIBLE_DEVICES", "7"}}}).out;
  };
  CHECK(seen({"-np", "1"}) == "[0]<stdout>:localhost 7\n");
  CHECK(seen({"-np", "1", "--gpus", "none"}) == "[0]<stdout>:localhost \n");
  const std::string hosts =
      seen({"--transport", "local", "-H", "a:2,b:1,c:1", "--gpus", "a=0,2;b=1"});
  for (const char* line :
       {"[0]<stdout>:a 0,2\n", "[1]<stdout>:a 0,2\n", "[2]<stdout>:b 1\n", "[3]<stdout>:c 7\n"}) {
    CAPTURE(line);
    CHECK(hosts.find(line) != std::string::npos);
  }
}

TEST_CASE("OMP_NUM_THREADS divides the usable cores, and the user's own stays", "[environment]") {
  const auto threads = [](std::vector<std::string> launcher) {
    launcher.insert(launcher.end(), {"sh", "-c", "echo $OMP_NUM_THREADS"});
    return run({.args = launcher}).out;
  };
  // One core by affinity, one rank: one thread, whatever the machine has.
  CHECK(threads({"env", "-u", "OMP_NUM_THREADS", "taskset", "-c", "0", build_path("hvdrun"), "-np",
                 "1"}) == "[0]<stdout>:1\n");
  CHECK(threads({"env", "OMP_NUM_THREADS=5", build_path("hvdrun"), "-np", "1"}) ==
        "[0]<stdout>:5\n");
}

TEST_CASE("OMP_NUM_THREADS stays within the CPU quota of the cgroup", "[environment]") {
  // A core and a half of two, so that without the quota there would be a thread more.
  const bool v1 = ::access("/sys/fs/cgroup/cpu/tasks", F_OK) == 0;
  const std::string folder = std::string("/sys/fs/cgroup/") + (v1 ? "cpu/" : "") + "hvdrun-quota-" +
                             std::to_string(::getpid());
  const auto threads = [&](const std::string& before) {
    return run({.args = {"sh", "-c",
                         before + "unset OMP_NUM_THREADS; exec " + build_path("hvdrun") +
                             " -np 1 sh -c 'echo $OMP_NUM_THREADS'"}})
        .out;
  };
  const std::string enter = "echo $$ > " + folder + "/cgroup.procs && ";
  const std::string quota = v1 ? "echo 150000 > " + folder + "/cpu.cfs_quota_us && "
                               : "echo 150000 100000 > " + folder + "/cpu.max && ";
  if (run({.args = {"mkdir", folder}}).exit_code != 0 ||
      run({.args = {"sh", "-c", quota + "true"}}).exit_code != 0) {
    (void)run({.args = {"rmdir", folder}});
    WARN("skipped: no cgroup with a CPU quota can be made at " << folder);
    return;
  }
  const std::string without = threads("");
  const std::string within = threads(enter);
  CHECK(run({.args = {"rmdir", folder}}).exit_code == 0);
  CHECK(within == "[0]<stdout>:1\n");
  if (without == "[0]<stdout>:1\n") WARN("this machine has one core: the quota takes none away");
}

TEST_CASE("a worker has no descriptors but its three", "[environment]") {
  for (const char* control : {"unix", "tcp"}) {
    const RunResult result =
        hvdrun({"--control", control, "-np", "2", "bash", "-c", "echo /proc/$$/fd/*"});
    for (const char* rank : {"0", "1"}) {
      const auto at = result.out.find(std::string("[") + rank + "]<stdout>:");
      REQUIRE(at != std::string::npos);
      const std::string line = result.out.substr(at, result.out.find('\n', at) - at);
      CAPTURE(line);
      // bash keeps its script at 255; the glob itself opens the folder at 3.
      for (int fd = 4; fd < 64; ++fd) {
        CHECK(line.find("/fd/" + std::to_string(fd) + " ") == std::string::npos);
      }
    }
  }
}

}  // namespace
}  // namespace hvdrun::test
