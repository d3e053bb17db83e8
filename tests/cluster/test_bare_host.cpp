// A host that has busybox and sshd and nothing else.
#include <filesystem>
#include <fstream>

#include "tests/catch.h"
#include "tests/cluster/cluster.h"
#include "tests/cluster/host_job.h"

using namespace hvdrun;
using namespace hvdrun::test;

namespace {

// A root folder for node2 with these two, what they load, and an sshd in it at port 2022. There is
// no id, head, mkdir, mv or sha256sum but busybox's, and no bash.
constexpr const char* kMakeRoot = R"sh(
set -e
root=$1 authorized=$2
mkdir -p "$root/bin" "$root/usr/sbin" "$root/root/.ssh" "$root/run/sshd" "$root/etc/ssh" "$root/dev" \
  "$root/proc" "$root/tmp" "$root/var/empty"
copy() {
  mkdir -p "$root$(dirname "$2")"
  cp -L "$1" "$root$2"
  ldd "$1" | grep -o '/[^ ]*' | while read -r library; do
    mkdir -p "$root$(dirname "$library")"
    cp -L "$library" "$root$library"
  done
}
copy "$(command -v busybox)" /bin/busybox
copy /usr/sbin/sshd /usr/sbin/sshd
# From OpenSSH 9.8 on it is several programs.
for part in /usr/lib/openssh/sshd-session /usr/lib/openssh/sshd-auth; do
  [ ! -e "$part" ] || copy "$part" "$part"
done
for name in $(busybox --list); do ln -s busybox "$root/bin/$name" 2>/dev/null || true; done
echo 'root:x:0:0::/root:/bin/sh
sshd:x:100:65534::/run/sshd:/bin/false' >"$root/etc/passwd"
cp "$authorized" "$root/root/.ssh/authorized_keys"
cp "$3" "$root/etc/ssh/key"
chmod 600 "$root/etc/ssh/key"
chmod 1777 "$root/tmp"
echo 'Port 2022
HostKey /etc/ssh/key
StrictModes no
PermitRootLogin yes
UsePAM no
PidFile none' >"$root/etc/ssh/sshd_config"
mount -t proc proc "$root/proc"
for device in null zero random urandom tty; do
  : >"$root/dev/$device"
  mount --bind "/dev/$device" "$root/dev/$device"
done
chroot "$root" /usr/sbin/sshd
)sh";

}  // namespace

TEST_CASE("a host needs busybox and sshd, no more", "[cluster][bare]") {
  if (const std::string reason = Cluster::missing(); !reason.empty()) {
    WARN("left out: " << reason);
    return;
  }
  if (is_sanitized()) {
    WARN("left out: a sanitized hvd-agent needs the sanitizer's library on its host");
    return;
  }
  const Cluster cluster(2);
  const std::string place = cluster.home("node2") + "/..";
  const std::string root = place + "/bare";
  const RunResult made = cluster.run_on(
      "node2", {"sh", "-c", kMakeRoot, "sh", root, cluster.folder() + "/id.pub", place + "/key"});
  CAPTURE(made.out, made.err);
  REQUIRE(made.exit_code == 0);
  // The marker shows in which root the rank is.
  std::ofstream(root + "/only-here") << "bare\n";
  const std::vector<std::string> job{
      "-H",
      "node1:1,node2:2022:2",
      "--env-compat",
      "torch",
      "--chdir",
      "/",
      "--tag-output",
      "off",
      "sh",
      "-c",
      "echo $HVD_RANK: $(cat /only-here 2>&1); [ $HVD_RANK = 0 ] || ls /bin | wc -l"};
  for (int turn = 0; turn < 2; ++turn) {
    const RunResult result = cluster.hvdrun_on("node1", job);
    CAPTURE(turn, result.out, result.err);
    CHECK(result.exit_code == 0);
    CHECK(contains(result.out, "1: bare\n"));
    CHECK(contains(result.out, "2: bare\n"));
    CHECK_FALSE(contains(result.out, "0: bare\n"));
  }
  CHECK(std::filesystem::exists(root + "/root/.cache/hvdrun"));
  // No process of it is left there.
  CHECK(cluster.run_on("node2", {"pgrep", "hvd-"}).exit_code == 1);
  // A host that has no program of that name says so before anything starts.
  const RunResult missing = cluster.hvdrun_on(
      "node1", {"-H", "node2:2022:2", "--env-compat", "torch", "--chdir", "/", "python3", "-V"});
  CAPTURE(missing.err);
  CHECK(missing.exit_code == 127);
  CHECK(contains(missing.err, "python3"));
}
