#include "tests/cluster/host_job.h"

#include <algorithm>
#include <cstdio>
#include <signal.h>
#include <unistd.h>

#include "tests/catch.h"

namespace hvdrun::test {
namespace {

using namespace std::chrono_literals;

std::vector<std::string> command(const Cluster& cluster, const std::string& marker,
                                 std::vector<std::string> words,
                                 const std::vector<std::string>& within) {
  words.insert(words.begin(),
               {"env", marker, build_path("hvdrun"), "--env-compat", "torch,mpi-ids"});
  words.insert(words.begin(), within.begin(), within.end());
  return cluster.on("node1", std::move(words));
}

// The last words of hvdrun itself that are no greeting of a rank.
std::string verdict_in(const std::string& said) {
  std::string verdict;
  for (std::size_t begin = 0; begin < said.size();) {
    const std::size_t end = std::min(said.find('\n', begin), said.size());
    const std::string line = said.substr(begin, end - begin);
    if (line.starts_with("hvdrun: ") && !line.starts_with("hvdrun:   ")) verdict = line.substr(8);
    begin = end + 1;
  }
  return verdict;
}

}  // namespace

HostJob::HostJob(const Cluster& cluster, std::vector<std::string> words, std::size_t ranks,
                 std::vector<std::string> within, std::chrono::seconds patience)
    : cluster_(cluster),
      process_({.args = command(cluster, marker_.first + "=" + marker_.second, std::move(words),
                                within)}) {
  for (std::size_t rank = 0; rank < ranks; ++rank)
    process_.wait_for_output("[" + std::to_string(rank) + "]<stdout>:ready\n", patience);
  begin();
}

HostJob::~HostJob() {
  if (process_.wait(0ms) != -1) return;
  const std::string marker = marker_.first + "=" + marker_.second;
  for (const ProcessInfo& info : cluster_.processes("node1"))
    if (info.name == "hvdrun" && info.environ.find(marker) != std::string::npos)
      ::kill(info.pid, SIGKILL);
}

bool HostJob::kill(const std::string& host, const std::string& who) const {
  for (const auto limit = Clock::now() + 10s; Clock::now() < limit; ::usleep(1'000))
    for (const ProcessInfo& info : cluster_.processes(host))
      if (info.name == who || info.cmdline.starts_with(who)) return ::kill(info.pid, SIGKILL) == 0;
  return false;
}

HostJobEnd HostJob::end(const std::vector<std::string>& hosts, std::chrono::milliseconds limit) {
  HostJobEnd end;
  bool gone = false;
  while (passed() < limit && (end.exit_code == -1 || !gone)) {
    if (end.exit_code == -1) {
      end.exit_code = process_.wait(0ms);
      end.back = passed();
    }
    if (gone) {
      ::usleep(1'000);
      continue;
    }
    end.left.clear();
    for (const std::string& host : hosts)
      for (ProcessInfo& info :
           cluster_.processes_of_job(host, marker_.first + "=" + marker_.second))
        end.left.push_back(std::move(info));
    gone = end.left.empty();
    end.gone = passed();
    // Reading what all processes are takes a core from the job.
    if (!gone) ::usleep(10'000);
  }
  end.said = process_.output();
  return end;
}

void print_row(const std::string& what, const HostJobEnd& end) {
  std::printf("%-44s all gone %6lld ms, hvdrun back %6lld ms, exit code %3d, %s\n", what.c_str(),
              static_cast<long long>(end.gone.count()), static_cast<long long>(end.back.count()),
              end.exit_code, verdict_in(end.said).c_str());
  std::fflush(stdout);
}

void check_end(const std::string& what, const HostJobEnd& end, int exit_code,
               const std::string& said) {
  INFO(what << "\n" << end.said);
  print_row(what, end);
  for (const ProcessInfo& info : end.left)
    UNSCOPED_INFO("left: " << info.name << " " << info.pid << " " << info.cmdline);
  CHECK(end.left.empty());
  CHECK(end.exit_code == exit_code);
  CHECK(contains(end.said, said));
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace hvdrun::test
