#include <limits>

#include "common/host/cpu_quota.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

using Folders = std::vector<std::string>;

constexpr double kNoQuota = std::numeric_limits<double>::infinity();

TEST_CASE("a quota of version 2 is its part of the period", "[quota]") {
  CHECK(quota_cores({"150000 100000\n", "", ""}) == 1.5);
  CHECK(quota_cores({"400000 100000\n", "", ""}) == 4);
  CHECK(quota_cores({"20000 40000", "", ""}) == 0.5);
  CHECK(quota_cores({"max 100000\n", "", ""}) == kNoQuota);
}

TEST_CASE("a quota of version 1 stands in two files, -1 is none", "[quota]") {
  CHECK(quota_cores({"", "250000\n", "100000\n"}) == 2.5);
  CHECK(quota_cores({"", "-1\n", "100000\n"}) == kNoQuota);
  CHECK(quota_cores({"", "250000\n", ""}) == kNoQuota);
  CHECK(quota_cores({"", "", "100000\n"}) == kNoQuota);
}

TEST_CASE("what cannot be read is no quota", "[quota]") {
  for (const char* text : {"", "\n", "100000", "100000 ", "100000 0", "0 100000", "-5 100000",
                           "100000 -1", "12x 100000", "100000 max", "99999999999999999999 1",
                           "cores", "1e5 100000", "\t100000 100000"}) {
    CAPTURE(text);
    CHECK(quota_cores({text, "", ""}) == kNoQuota);
    CHECK(quota_cores({"", text, "100000"}) ==
          (std::string(text).rfind("100000", 0) == 0 ? 1 : kNoQuota));
  }
}

TEST_CASE("the folders are those of the CPU's controller, up to the root", "[quota]") {
  CHECK(quota_folders("0::/user.slice/job\n") ==
        Folders{"/sys/fs/cgroup/user.slice/job", "/sys/fs/cgroup/user.slice", "/sys/fs/cgroup"});
  CHECK(quota_folders("0::/\n") == Folders{"/sys/fs/cgroup"});
  // Both versions at once; the controllers of version 1 are a folder's name.
  CHECK(quota_folders("4:memory:/m\n3:cpuset:/s\n2:cpu,cpuacct:/a\n1:name=systemd:/\n0::/b") ==
        Folders{"/sys/fs/cgroup/cpu,cpuacct/a", "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup/b",
                "/sys/fs/cgroup"});
  CHECK(quota_folders("7:cpuacct,cpu:/\n") == Folders{"/sys/fs/cgroup/cpuacct,cpu"});
}

TEST_CASE("a line that is none of /proc/PID/cgroup names no folder", "[quota]") {
  for (const char* text : {"", "\n\n", "cpu", "1:cpu", "1:cpu:", "1:cpu:relative", ":", "::"})
    CHECK(quota_folders(text).empty());
}

TEST_CASE("of a quota whole cores count, and one at least", "[quota]") {
  CHECK(cores_within(kNoQuota, 8) == 8);
  CHECK(cores_within(8, 8) == 8);
  CHECK(cores_within(7.99, 8) == 7);
  CHECK(cores_within(1.5, 8) == 1);
  CHECK(cores_within(0.25, 8) == 1);
  CHECK(cores_within(100, 8) == 8);
  CHECK(cores_within(kNoQuota, 0) == 1);
}

}  // namespace
}  // namespace hvdrun
