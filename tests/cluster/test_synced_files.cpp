// Files that ranks write on hosts over ssh, and that come to hvdrun's own.
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "tests/catch.h"
#include "tests/cluster/host_job.h"
#include "tests/integration/helpers/text.h"

namespace hvdrun::test {

using namespace std::chrono_literals;

namespace {

bool comes(const std::filesystem::path& path, std::chrono::seconds limit = 20s) {
  const auto begin = HostJob::Clock::now();
  while (!std::filesystem::exists(path) && HostJob::Clock::now() - begin < limit)
    std::this_thread::sleep_for(20ms);
  return std::filesystem::exists(path);
}

// The folders that agents have made in the cluster's and not removed.
std::size_t folders_left(const Cluster& cluster) {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(cluster.folder()))
    if (entry.path().filename().string().starts_with("hvdrun-sync-")) ++count;
  return count;
}

struct FileJob {
  std::string out() const { return cluster.folder() + "/out"; }
  // `script` runs on node1 and node2, below a folder that it finds in $d.
  HostJob start(const std::string& script, std::vector<std::string> more = {}) const {
    std::vector<std::string> words = {
        "-H", "node1:1,node2:1",           "--lease", "3", "--sync-dir", out(),
        "-x", "TMPDIR=" + cluster.folder()};
    words.insert(words.end(), more.begin(), more.end());
    for (const char* const word : {"-np", "2", "sh", "-c"}) words.emplace_back(word);
    words.push_back("d=$OCI__SYNC_DIR; echo in $d; " + script);
    return HostJob(cluster, words, 2);
  }
  HostJobEnd end(HostJob& job, const std::string& host = "node2") const {
    job.begin();
    return job.end({"node1", host}, 30s);
  }
  const Cluster cluster{2};
};

}  // namespace

TEST_CASE("files of other hosts come while the job runs and at its end", "[cluster]") {
  if (const std::string reason = Cluster::missing(); !reason.empty()) {
    WARN("left out: " << reason);
    return;
  }
  const FileJob files;
  HostJob job = files.start(
      "mkdir -p $d/ckpts && echo of $HVD_RANK >$d/ckpts/$HVD_RANK.pt && ln -s x $d/link$HVD_RANK;"
      " echo ready; until [ -e " +
      files.cluster.folder() +
      "/stop ]; do sleep 0.1; done;"
      " head -c 3000000 /dev/zero >$d/large$HVD_RANK; [ $HVD_RANK = 1 ] || exec sleep 60; exit 3");
  CHECK(comes(files.out() + "/ckpts/1.pt"));
  CHECK(contents(files.out() + "/ckpts/0.pt") == "of 0\n");
  CHECK(contents(files.out() + "/ckpts/1.pt") == "of 1\n");
  std::ofstream(files.cluster.folder() + "/stop") << "now";
  const HostJobEnd end = files.end(job);
  INFO(end.said);
  CHECK(end.exit_code == 3);
  CHECK(end.left.empty());
  CHECK(contains(end.said, "[0]<stdout>:in " + files.out() + "\n"));
  CHECK(contains(end.said, "[1]<stdout>:in " + files.cluster.folder() + "/hvdrun-sync-"));
  CHECK(contains(end.said, "node2: a link below --sync-dir (link1, the first): it is not brought"));
  CHECK(std::filesystem::file_size(files.out() + "/large1") == 3'000'000);
  CHECK_FALSE(std::filesystem::exists(std::filesystem::symlink_status(files.out() + "/link1")));
  CHECK(folders_left(files.cluster) == 0);
}

TEST_CASE("files that have come outlast the host that had them", "[cluster]") {
  if (const std::string reason = Cluster::missing(); !reason.empty()) {
    WARN("left out: " << reason);
    return;
  }
  const FileJob files;
  // The second one is written for ever.
  HostJob job = files.start(
      "echo whole >$d/first$HVD_RANK; echo ready; while :; do echo more; sleep 0.1; done"
      " >$d/second$HVD_RANK");
  CHECK(comes(files.out() + "/first1"));
  SECTION("its agent is killed") { REQUIRE(job.kill("node2", "hvd-agent")); }
  SECTION("it loses its power") { files.cluster.act("poweroff", "node2"); }
  const HostJobEnd end = files.end(job, "node1");
  INFO(end.said);
  CHECK(end.exit_code != 0);
  CHECK(contents(files.out() + "/first1") == "whole\n");
  CHECK_FALSE(std::filesystem::exists(files.out() + "/second1"));
  CHECK(contains(end.said, "files below --sync-dir that have not come from node2 are there, in " +
                               files.cluster.folder() + "/hvdrun-sync-"));
  CHECK(folders_left(files.cluster) == 1);
}

TEST_CASE("a file whose name cannot be had here stays where it is", "[cluster]") {
  if (const std::string reason = Cluster::missing(); !reason.empty()) {
    WARN("left out: " << reason);
    return;
  }
  const FileJob files;
  std::filesystem::create_directories(files.out() + "/taken1/inner");
  HostJob job = files.start(
      "echo whole >$d/first$HVD_RANK; [ $HVD_RANK = 0 ] ||"
      " echo x >$d/taken$HVD_RANK; echo ready");
  const HostJobEnd end = files.end(job);
  INFO(end.said);
  CHECK(end.exit_code == 0);
  CHECK(contents(files.out() + "/first1") == "whole\n");
  CHECK(contains(end.said, files.out() + "/taken1: Is a directory; it stays on node2, in "));
  CHECK(contains(end.said, "1 file below --sync-dir stayed on node2, in "));
  CHECK(folders_left(files.cluster) == 1);
}

}  // namespace hvdrun::test
