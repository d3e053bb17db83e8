// A job whose hosts are listed in a file that a test changes while it runs. With --transport local
// each host is an agent of this machine.
#pragma once

#include <chrono>
#include <filesystem>
#include <fstream>
#include <optional>
#include <random>
#include <regex>
#include <set>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include "tests/catch.h"
#include "tests/integration/helpers/run_program.h"
#include "tests/integration/helpers/text.h"

namespace hvdrun::test {

// A file of hosts, and a job that reads it.
class ListedJob {
 public:
  explicit ListedJob(const std::string& hosts) { list(hosts); }
  ~ListedJob() {
    std::filesystem::remove(path_);
    std::filesystem::remove(stop_);
  }
  ListedJob(const ListedJob&) = delete;
  ListedJob& operator=(const ListedJob&) = delete;

  void list(const std::string& hosts) const {
    const std::string next = path_ + ".next";
    std::ofstream(next) << hosts;
    std::filesystem::rename(next, path_);
  }
  // A job of a script that is `script` and the file's path.
  void start(std::vector<std::string> words, const std::vector<std::string>& program,
             const std::string& script = "cat") {
    words.insert(words.end(), {"--host-discovery-script", script + " " + path_});
    start_with(std::move(words), program);
  }
  // Without a list: `words` have the hosts.
  void start_with(const std::vector<std::string>& words, const std::vector<std::string>& program) {
    std::vector<std::string> args{build_path("hvdrun"), "--transport", "local"};
    args.insert(args.end(), words.begin(), words.end());
    args.insert(args.end(), program.begin(), program.end());
    job_.emplace(RunOptions{.args = args, .env = {marker_}});
  }
  std::string wait_for(const std::string& text, std::size_t times = 1,
                       std::chrono::seconds limit = std::chrono::seconds(40)) {
    return job_->wait_for_output(text, limit, times);
  }
  // The program that trains until it is to stop. `before`: words of a shell in front of it.
  std::vector<std::string> probe(const std::string& before = "") const {
    return {"sh",
            "-c",
            before + "exec \"$@\"",
            "sh",
            build_path("tests/integration/programs/elastic_probe"),
            "until",
            stop_,
            "40"};
  }
  // It stops now, and nothing of it is left.
  void check_stop(int exit_code = 0) {
    std::ofstream(stop_) << "now";
    check_exit(exit_code);
  }
  // It ends by itself.
  void check_exit(int exit_code) {
    CHECK(job_->wait(std::chrono::seconds(60)) == exit_code);
    CAPTURE(job_->output());
    CHECK(processes_with(marker_.first + "=" + marker_.second).empty());
  }
  // Likewise, and each step of the probe has been done.
  void check_end(int exit_code = 0) {
    check_stop(exit_code);
    if (exit_code != 0) return;
    const std::string& out = job_->output();
    const std::regex line("step (\\d+) rank (\\d+) of (\\d+): ([0-9.]+)");
    std::set<int> seen;
    for (auto it = std::sregex_iterator(out.begin(), out.end(), line); it != std::sregex_iterator();
         ++it) {
      seen.insert(std::stoi((*it)[1]));
      CHECK((*it)[1] == (*it)[4]);
    }
    REQUIRE_FALSE(seen.empty());
    CHECK(seen.size() == static_cast<std::size_t>(*seen.rbegin()));
  }
  const std::string& output() const { return job_->output(); }
  const std::string& path() const { return path_; }
  // The file that has it stop.
  const std::string& stop_path() const { return stop_; }
  pid_t pid() const { return job_->pid(); }
  // As the last epoch says that has been told of.
  int ranks_of_the_moment() {
    job_->wait(std::chrono::milliseconds(10));
    const std::string& out = job_->output();
    const std::string words = "the job goes on with ";
    const auto at = out.rfind(words);
    return at == out.npos ? 0 : std::stoi(out.substr(at + words.size()));
  }
  std::size_t epochs() {
    job_->wait(std::chrono::milliseconds(10));
    return times_in(job_->output(), "the job goes on with ");
  }
  std::vector<ProcessInfo> ranks() const {
    std::vector<ProcessInfo> found;
    for (ProcessInfo& process : processes_with(marker_.first + "=" + marker_.second))
      if (process.name == "elastic_probe") found.push_back(std::move(process));
    return found;
  }

 private:
  std::string path_ = "/tmp/hvdrun-hosts-" + std::to_string(::getpid()) + "-" +
                      std::to_string(std::random_device{}());
  std::string stop_ = path_ + ".stop";
  std::pair<std::string, std::string> marker_ = fresh_marker();
  std::optional<Background> job_;
};

}  // namespace hvdrun::test
