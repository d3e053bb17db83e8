#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/catch.h"
#include "worker/agent/ranks/process_probe.h"
#include "worker/agent/stalls/process_picture.h"

namespace hvdrun {
namespace {

TEST_CASE("a kernel stack is its function names", "[stall]") {
  CHECK(stack_names("[<0>] futex_wait+0x1a/0x30\n[<0>] do_futex+0x1/0x2 [module]\n") ==
        "futex_wait < do_futex");
  CHECK(stack_names("[<ffffffff81>] one+0x1/0x2") == "one");
  CHECK(stack_names("").empty());
  CHECK(stack_names("\n\n[<0>]\n[<0>] \n").empty());
  std::string deep;
  for (int i = 0; i < 1000; ++i) deep += "[<0>] function" + std::to_string(i) + "+0x1/0x2\n";
  const std::string names = stack_names(deep);
  CHECK(names.size() <= limits::kMaxKernelStack);
  CHECK(names.size() > limits::kMaxKernelStack - 20);
  CHECK_THAT(names, Catch::StartsWith("function0 < function1 < "));
}

TEST_CASE("a system call has a name, and the file behind its descriptor", "[stall]") {
  const auto file_of = [](std::uint64_t fd) { return fd == 0x1f ? "/data/x" : ""; };
  const std::string read = std::to_string(SYS_read);
  CHECK(system_call_name(read + " 0x1f 0x7ffd 0x1 0x0 0x0 0x0 0x7ffe 0x7fff\n", file_of) ==
        "read of /data/x");
  CHECK(system_call_name(read + " 0x3 0x7ffd\n", file_of) == "read");
  CHECK(system_call_name(read + " x", file_of) == "read");
  CHECK(system_call_name(read, file_of) == "read");
  CHECK(system_call_name(std::to_string(SYS_futex) + " 0x1f\n", file_of) == "futex");
  CHECK(system_call_name("9999 0x1f\n", file_of) == "9999");
  for (const char* const none :
       {"running\n", "-1 0x7ffe 0x7fff\n", "", "0x0\n", "99999999999999999999"})
    CHECK(system_call_name(none, file_of).empty());
}

TEST_CASE("pictures are cut to what a frame takes, each rank alike", "[stall]") {
  std::vector<RankPicture> ranks(4);
  cut_pictures(ranks, 0);
  for (RankPicture& rank : ranks) {
    rank.probe.stack = std::string(100, 's');
    for (int i = 0; i < 10; ++i) rank.report.pending.push_back({std::string(10, 't'), 1});
    rank.report.pending_count = 10;
    rank.report.unconnected.resize(20);
  }
  auto enough = ranks;
  cut_pictures(enough, 4 * 300);
  CHECK(enough[3].probe.stack.size() == 100);
  CHECK(enough[3].report.pending.size() == 10);
  CHECK(enough[3].report.unconnected.size() == 20);
  auto half = ranks;
  cut_pictures(half, 4 * 150);
  for (const RankPicture& rank : half) {
    CHECK(rank.probe.stack.size() == 50);
    CHECK(rank.report.pending.size() == 5);
    CHECK(rank.report.pending_count == 10);
    CHECK(rank.report.unconnected.size() == 50 / sizeof(std::uint32_t));
  }
  cut_pictures(ranks, 1);
  CHECK(ranks[0].probe.stack.empty());
  CHECK(ranks[0].report.pending.size() == 1);  // the oldest always stays
  std::vector<RankPicture> none;
  cut_pictures(none, 100);
  // The ranks of process sets count, too.
  std::vector<RankPicture> of_sets(1);
  of_sets[0].report.pending = {{"a", 1, {1, 2, 3}}, {"b", 1, {1, 2, 3}}, {"c", 1}};
  auto one = of_sets;
  cut_pictures(one, 2 * 20);
  CHECK(one[0].report.pending.size() == 1);
  CHECK(one[0].report.pending[0].ranks.size() == 3);
  cut_pictures(of_sets, 2 * 12);
  CHECK(of_sets[0].report.pending[0].name == "a");
  CHECK(of_sets[0].report.pending[0].ranks.empty());
}

TEST_CASE("stacks of a status are cut, each rank alike", "[stall]") {
  std::vector<RankProbe> ranks(4);
  for (RankProbe& rank : ranks) rank.stack = std::string(100, 's');
  cut_stacks(ranks, 400);
  CHECK(ranks[3].stack.size() == 100);
  cut_stacks(ranks, 200);
  CHECK(ranks[3].stack.size() == 50);
  std::vector<RankProbe> none;
  cut_stacks(none, 100);
}

TEST_CASE("a stopped process is seen as one", "[stall]") {
  const pid_t child = ::fork();
  if (child == 0) {
    ::raise(SIGSTOP);
    ::_exit(0);
  }
  REQUIRE(child > 0);
  int status = 0;
  REQUIRE(::waitpid(child, &status, WUNTRACED) == child);
  const RankPicture picture = picture_process(3, child);
  CHECK(picture.probe.rank == 3);
  CHECK(picture.probe.pid == static_cast<std::uint32_t>(child));
  CHECK(picture.probe.state == "T");
  CHECK(picture.command + "\n" == read_proc_file("/proc/self/comm"));
  CHECK_FALSE(picture.probe.stack.empty());  // or why there is none
  CHECK(within_limits(picture));
  ::kill(child, SIGKILL);
  ::waitpid(child, &status, 0);
  const RankPicture gone = picture_process(3, child);
  CHECK(gone.probe.state.empty());
  CHECK(gone.probe.stack.empty());
}

TEST_CASE("a process that waits for a pipe is in read of it", "[stall]") {
  int ends[2];
  REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    char byte = 0;
    ::_exit(::read(ends[0], &byte, 1) == 1 ? 0 : 1);
  }
  REQUIRE(child > 0);
  RankPicture picture;
  // Until it has come so far; the call is known before the process sleeps in it.
  const auto reads = [&] {
    return picture.probe.state == "S" && picture.probe.system_call.starts_with("read");
  };
  for (int i = 0; i < 5000 && !reads(); ++i) {
    picture = picture_process(0, child);
    ::usleep(1000);
  }
  CHECK(picture.probe.state == "S");
  CHECK_THAT(picture.probe.system_call, Catch::StartsWith("read of pipe:["));
  ::close(ends[1]);
  int status = 0;
  ::kill(child, SIGKILL);
  ::waitpid(child, &status, 0);
  ::close(ends[0]);
}

TEST_CASE("what may not be read of /proc is nothing", "[stall]") {
  CHECK_FALSE(read_proc_file("/proc/self/no-such-file"));
  CHECK_FALSE(read_proc_file("/proc/self"));  // a folder
  CHECK(read_proc_file("/proc/self/comm"));
}

TEST_CASE("a process in words has what is known of it", "[picture]") {
  RankProbe probe;
  CHECK(words_of(probe) == "gone");
  probe.state = "T";
  CHECK(words_of(probe) == "stopped");
  probe.wait_channel = "do_signal_stop";
  probe.system_call = "read of pipe:[4711]";
  probe.stack = kHiddenStack;
  CHECK(words_of(probe) == "stopped in do_signal_stop, system call read of pipe:[4711]");
  probe.stack = "a < b";
  CHECK(words_of(probe) ==
        "stopped in do_signal_stop, system call read of pipe:[4711], kernel stack a < b");
}

}  // namespace
}  // namespace hvdrun
