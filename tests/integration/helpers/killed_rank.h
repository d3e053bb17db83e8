// A rank of a job is killed at a random moment: every other one says so in time, and by name.
#pragma once

#include <algorithm>
#include <chrono>
#include <iostream>
#include <random>
#include <regex>
#include <signal.h>
#include <string>
#include <thread>
#include <vector>

#include "tests/catch.h"
#include "tests/integration/helpers/run_program.h"
#include "tests/soak.h"

namespace hvdrun::test {

// 200 times in the soak. `program` prints "process PID (rank R)" when it is in what it is killed
// in, and "lost after N ms: ..." when it knows; it ignores SIGTERM.
inline void check_killed_ranks(const std::string& where, const std::vector<std::string>& program) {
  using namespace std::chrono_literals;
  const auto seed = soak_seed("kills in " + where);
  std::mt19937_64 random(seed);
  const std::size_t kills = soak_count(200);
  long long slowest = 0;
  for (std::size_t i = 0; i < kills; ++i) {
    const int np = 2 + static_cast<int>(random() % 3);
    const int victim = static_cast<int>(random() % static_cast<unsigned>(np));
    const auto moment = std::chrono::microseconds(random() % 20'000);
    CAPTURE(seed, i, np, victim, moment.count());
    std::vector<std::string> args = {
        build_path("hvdrun"), "--tag-output", "off", "--grace", "TERM,5s,KILL", "-np",
        std::to_string(np)};
    args.insert(args.end(), program.begin(), program.end());
    Background job({.args = args, .env = {{"OMP_NUM_THREADS", "1"}}});
    std::string output;
    for (int rank = 0; rank < np; ++rank)
      output = job.wait_for_output("(rank " + std::to_string(rank) + ")", 20s);
    std::smatch found;
    const std::regex line("process ([0-9]+) \\(rank " + std::to_string(victim) + "\\)");
    REQUIRE(std::regex_search(output, found, line));
    std::this_thread::sleep_for(moment);
    REQUIRE(::kill(std::stoi(found[1]), SIGKILL) == 0);
    const int code = job.wait(10s);
    output = job.wait_for_output("", 1s);
    INFO(output);
    CHECK(code == 128 + SIGKILL);
    CHECK(output.find("hvdrun: rank " + std::to_string(victim) + " on localhost") !=
          std::string::npos);
    const std::regex news("lost after ([0-9]+) ms: .*rank " + std::to_string(victim) + "[^0-9]");
    int survivors = 0;
    for (auto at = std::sregex_iterator(output.begin(), output.end(), news);
         at != std::sregex_iterator(); ++at) {
      ++survivors;
      slowest = std::max(slowest, std::stoll((*at)[1]));
    }
    CHECK(survivors == np - 1);
  }
  std::cout << kills << " kills in " << where << ", the slowest error after " << slowest << " ms\n";
  CHECK(slowest < 1000);
}

}  // namespace hvdrun::test
