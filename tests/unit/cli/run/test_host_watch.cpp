// Sources of hosts as real programs and files, read by real processes.
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "cli/run/host_watch.h"
#include "tests/catch.h"
#include "tests/unit/cli/text_file.h"

namespace hvdrun {
namespace {

HostSource script(const std::string& text) {
  return {HostSource::Kind::script, text, "--host-discovery-script", {}};
}

TEST_CASE("a script is a file or a line for the shell", "[discovery]") {
  CHECK(read_once(script("printf 'a:2\\nb:1\\n'")).hosts.size() == 2);
  CHECK(read_once(script("for i in 1 2 3; do echo n$i:4; done")).hosts.size() == 3);
  CHECK(read_once(script("cat")).fault == "lists no host");  // it gets no input
}

TEST_CASE("a script that fails says why", "[discovery]") {
  CHECK(read_once(script("echo a:1; echo one >&2; echo no pods >&2; exit 3")).fault ==
        "exited with code 3: no pods");
  CHECK(read_once(script("kill -9 $$")).fault == "was killed by signal 9 (SIGKILL)");
  CHECK(read_once(script("./there-is-no-such-script")).fault.starts_with("exited with code 127: "));
  // Its stderr does not matter, and may be much.
  CHECK(read_once(script("head -c 300000 /dev/zero >&2; echo a:1")).hosts.size() == 1);
}

// Slurm itself stands behind the real one.
TEST_CASE("Slurm is asked by its squeue", "[discovery]") {
  const TextFile squeue(
      "#!/bin/sh\n[ \"$*\" = \"--noheader --jobs 4711 --format %N\" ] && echo 'n[1-2]'\n");
  const std::filesystem::path folder = squeue.path() + ".bin";
  std::filesystem::create_directory(folder);
  std::filesystem::copy_file(squeue.path(), folder / "squeue");
  std::filesystem::permissions(folder / "squeue", std::filesystem::perms::owner_all);
  const std::string path = std::getenv("PATH");  // NOLINT(concurrency-mt-unsafe): one thread
  ::setenv("PATH", (folder.string() + ":" + path).c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  const HostSource slurm{HostSource::Kind::slurm, "4711", "Slurm allocation", {}, {{"n2", 3}}};
  const HostListing read = read_once(slurm);
  ::setenv("PATH", path.c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  std::filesystem::remove_all(folder);
  CHECK(read.fault.empty());
  REQUIRE(read.hosts.size() == 2);
  CHECK(read.hosts[0].slots == 1);
  CHECK(read.hosts[1].slots == 3);
}

TEST_CASE("a script that says too much is ended", "[discovery]") {
  CHECK(read_once(script("yes a:1")).fault.starts_with("has said more than 8192 KiB"));
}

TEST_CASE("who holds a script's output open is not waited for", "[discovery]") {
  const auto begin = std::chrono::steady_clock::now();
  // One of its group ends with it.
  CHECK(read_once(script("echo a:1; sleep 60 & exit 0")).remarks.empty());
  const HostListing read = read_once(script("echo a:1; setsid sleep 6 & sleep 0.3; exit 0"));
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(5));
  CHECK(read.fault.empty());
  CHECK(read.hosts.size() == 1);
  REQUIRE(read.remarks.size() == 1);
  CHECK_THAT(read.remarks[0], Catch::Contains("holds its output open"));
}

TEST_CASE("a program that takes too long is ended, with what it has started", "[discovery]") {
  boost::asio::io_context io;
  ClientOutput reading(io);
  std::string fault;
  REQUIRE_FALSE(reading.start({.argv = {"/bin/sh", "-c", "echo a:1; sleep 60 & wait"}},
                              {std::chrono::milliseconds(300), 1000},
                              [&](const ClientOutput::Answer& answer) { fault = answer.fault; }));
  const auto begin = std::chrono::steady_clock::now();
  io.run();
  CHECK(fault == "did not end within 1 s");
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(10));
}

TEST_CASE("a file is watched while the job runs", "[discovery]") {
  TextFile file("a slots=2\n");
  boost::asio::io_context io;
  HostSource source{HostSource::Kind::hostfile, file.path(), "--hostfile", {}};
  std::vector<std::string> said;
  std::vector<HostEntry> hosts;
  HostWatch watch(io, source, read_once(source).hosts,
                  {[&](const std::string& text) { said.push_back(text); },
                   [&](std::vector<HostEntry> now) {
                     hosts = std::move(now);
                     watch.stop();
                   }});
  watch.start();
  file.write("a slots=2\nb slots=\n");
  boost::asio::steady_timer mended(io, std::chrono::milliseconds(2'500));
  mended.async_wait([&](const auto&) { file.write("a slots=2\nb slots=4\n"); });
  io.run_for(std::chrono::seconds(30));
  REQUIRE(hosts.size() == 2);
  CHECK(hosts[1].slots == 4);
  REQUIRE(said.size() == 1);
  CHECK_THAT(said[0], Catch::StartsWith("--hostfile: " + file.path() + " line 2: ") &&
                          Catch::EndsWith("; the hosts stay as they are"));
}

}  // namespace
}  // namespace hvdrun
