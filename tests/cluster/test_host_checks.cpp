// Hosts as they are written, those that are this machine, and what others lack, all told before
// anything starts.
#include <filesystem>
#include <sys/stat.h>

#include "tests/catch.h"
#include "tests/cluster/cluster.h"

using namespace hvdrun;
using namespace hvdrun::test;

namespace {

std::string why_no_hosts() {
  const std::string reason = Cluster::missing();
  if (!reason.empty()) WARN("left out: " << reason);
  return reason;
}

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a program or library that a host lacks is told before anything starts",
          "[cluster][host checks]") {
  if (!why_no_hosts().empty()) return;
  const Cluster cluster(4);
  const TempFolder folder;
  // Without #!: /bin/sh runs it there as here.
  const std::string script = folder.file("train", "echo started on $(hostname)\n");
  REQUIRE(::chmod(script.c_str(), 0755) == 0);
  const std::string hosts = "node1:1,node2:1,node3:1,node4:1";
  const std::vector<std::string> job{"-np", "4", "-H", hosts, script};
  const RunResult fine = cluster.hvdrun_on("node1", job);
  INFO(fine.err);
  CHECK(fine.exit_code == 0);
  CHECK(says(fine.out, "started on node4"));

  // It is gone from two hosts, and libhvd from one of them.
  const auto hide = [&](const std::string& host, const std::string& path) {
    REQUIRE(cluster.run_on(host, {"mount", "-t", "tmpfs", "none", path}).exit_code == 0);
  };
  for (const char* host : {"node2", "node4"}) hide(host, folder.path());
  const RunResult missing = cluster.hvdrun_on("node1", job);
  CAPTURE(missing.err);
  CHECK(missing.exit_code == 127);
  CHECK(missing.out.empty());
  CHECK(says(missing.err, "hosts node2, node4: '" + script + "': No such file or directory\n"));
  CHECK(says(missing.err, "hvdrun: nothing was started\n"));
  CHECK_FALSE(says(missing.err, "node3"));

  hide("node3", build_path("worker/hvd/api"));
  const RunResult both = cluster.hvdrun_on(
      "node1", {"-np", "2", "-H", hosts, script, ":", "-np", "2", worker_probe(), "topology"});
  CAPTURE(both.err);
  CHECK(both.exit_code == 127);
  CHECK(both.out.empty());
  CHECK(says(both.err, "host node2: '" + script + "': No such file or directory\n"));
  CHECK(
      says(both.err, "host node3: '" + worker_probe() + "': the library libhvd.so.0 is not found"));
  const RunResult library =
      cluster.hvdrun_on("node1", {"-np", "1", "-H", "node3:1", worker_probe(), "topology"});
  CHECK(library.exit_code == 126);
  CHECK(says(library.err, "libhvd.so.0"));

  // The working folder and PATH count there too.
  const RunResult folderless = cluster.hvdrun_on(
      "node1", {"--chdir", folder.path() + "/sub", "-np", "1", "-H", "node2:1", "true"});
  CHECK(folderless.exit_code == 64);
  CHECK(says(folderless.err, "host node2: no such folder to start in"));
  // By the name that it has here: where a link leads is another host's own.
  for (const std::string host : {"node1", "node3"}) {
    hide(host, "/mnt");
    const RunResult made = cluster.run_on(
        host, {"sh", "-c", "mkdir -p /mnt/$(hostname)/job && ln -s $(hostname) /mnt/home"});
    REQUIRE(made.exit_code == 0);
  }
  const RunResult linked = cluster.run_on(
      "node1", {"sh", "-c",
                "cd /mnt/home/job && exec \"$0\" --tag-output off -np 2 -H node1:1,node3:1 "
                "sh -c 'pwd; pwd -P >&2'",
                build_path("hvdrun")});
  CHECK(linked.exit_code == 0);
  CHECK(linked.out == "/mnt/home/job\n/mnt/home/job\n");
  for (const std::string host : {"node1", "node3"})
    CHECK(says(linked.err, "/mnt/" + host + "/job\n"));
  // A link that is here alone, to what every host has.
  const RunResult made = cluster.run_on(
      "node1",
      {"sh", "-c", "ln -s " + folder.path() + " /mnt/work && mkdir " + folder.path() + "/sub"});
  REQUIRE(made.exit_code == 0);
  const auto from_link = [&](const std::string& words) {
    return cluster
        .run_on("node1", {"sh", "-c",
                          "cd /mnt/work && exec \"$0\" --tag-output off -np 2 " + words +
                              " -H node1:1,node3:1 sh -c 'echo $(hostname) $(pwd) $PWD'",
                          build_path("hvdrun")})
        .out;
  };
  const auto places = [&](const std::string& name) {
    return std::set<std::string>{"node1 /mnt/work" + name + " /mnt/work" + name,
                                 "node3 " + folder.path() + name + " " + folder.path() + name};
  };
  CHECK(set_of_lines(from_link("")) == places(""));
  CHECK(set_of_lines(from_link("--chdir sub")) == places("/sub"));
  const RunResult pathless = cluster.hvdrun_on(
      "node1", {"-x", "PATH=" + folder.path(), "-np", "1", "-H", "node2:1", "train"});
  CHECK(pathless.exit_code == 127);
  CHECK(says(pathless.err, "host node2: 'train': no such program in PATH"));
}

TEST_CASE("a host's own user and port are used", "[cluster][host checks]") {
  if (!why_no_hosts().empty()) return;
  const Cluster cluster(2);
  // A second sshd there; who comes in by it is seen by its folder for agents.
  const std::string home = cluster.home("node2");
  const RunResult second = cluster.run_on(
      "node2", {"sh", "-c",
                "sed 's/^Port 22/Port 2222/' " + home + "/../sshd_config > " + home +
                    "/second && echo 'SetEnv XDG_CACHE_HOME=" + home + "/second-cache' >> " + home +
                    "/second && exec /usr/sbin/sshd -f " + home + "/second"});
  INFO(second.err);
  REQUIRE(second.exit_code == 0);
  const auto run_job = [&](const std::string& hosts) {
    return cluster.hvdrun_on("node1", {"-p", "2223", "--ssh-args", "-o StrictHostKeyChecking=no",
                                       "--tag-output", "off", "-np", "2", "-H", hosts, "hostname"});
  };
  const RunResult fine = run_job("root@node2:2222:2");
  INFO(fine.err);
  CHECK(fine.exit_code == 0);
  CHECK(fine.out == "node2\nnode2\n");
  CHECK(std::filesystem::exists(home + "/second-cache/hvdrun"));
  CHECK_FALSE(std::filesystem::exists(home + "/.cache/hvdrun"));
  // This machine by another port is not this process's machine.
  const RunResult refused = run_job("node1:2222:1,nobody@node2:22:1");
  CHECK(refused.exit_code == 69);
  CHECK(says(refused.err, "port 2222: Connection refused"));
  CHECK(says(refused.err, "nobody@node2: Permission denied"));
  CHECK(says(refused.err, "ssh -l nobody -p 22 "));
}

TEST_CASE("all names of this machine are one host", "[cluster][host checks]") {
  if (!why_no_hosts().empty()) return;
  const Cluster cluster(2);
  REQUIRE(
      cluster.run_on("node1", {"sh", "-c", "echo 10.77.0.1 alias.lab >> /etc/hosts"}).exit_code ==
      0);
  const RunResult merged =
      cluster.hvdrun_on("node1", {"--verbose", "--tag-output", "off", "-np", "6", "-H",
                                  "node2:1,node1:1,alias.lab:1,10.77.0.1:1,[::1]:1,LOCALHOST:1",
                                  "sh", "-c", "echo $HVD_RANK $HVD_LOCAL_SIZE $(hostname)"});
  INFO(merged.err);
  CHECK(merged.exit_code == 0);
  CHECK(says(merged.out, "0 1 node2\n"));
  CHECK(says(merged.out, "5 5 node1\n"));
  CHECK(
      says(merged.err, "node1, alias.lab, 10.77.0.1, ::1, LOCALHOST: this machine, with 5 slots"));

  // A resolver that does not answer costs no more than its deadline; the name is ssh's then.
  REQUIRE(cluster
              .run_on("node1", {"sh", "-c",
                                "echo nameserver 10.77.0.99 > ~/resolv.conf && "
                                "mount --bind ~/resolv.conf /etc/resolv.conf"})
              .exit_code == 0);
  const RunResult slow =
      cluster.hvdrun_on("node1", {"--dry-run", "-H", "gpu1.lab:1,gpu2.lab:1,node1:1", "true"});
  INFO(slow.err);
  CHECK(slow.exit_code == 0);
  CHECK(says(slow.out, "3 ranks on 3 hosts"));
  CHECK(slow.time < std::chrono::milliseconds(is_sanitized() ? 4000 : 2500));
}
