// A process of an elastic job dies in each phase of its life.
#include <algorithm>
#include <cstdint>
#include <regex>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/integration/helpers/run_program.h"
#include "tests/soak.h"
#include "tests/turns.h"

namespace hvdrun::test {
namespace {

using Words = std::vector<std::string>;

const Words& phases() {
  static const Words all{"idle",  "allreduce", "commit",  "agree", "restore", "meet",
                         "start", "door",      "receive", "send",  "shutdown"};
  return all;
}

void check(const std::string& phase, const std::string& slot, const std::string& delay,
           const Words& places) {
  CAPTURE(phase, slot, delay, places);
  const auto marker = fresh_marker();
  Words words = places;
  words.insert(words.end(),
               {"-np", "4", "--min-np", "2", build_path("tests/integration/programs/elastic_phase"),
                phase, slot, delay});
  const RunResult job = hvdrun(words, {.env = {marker}});
  CAPTURE(job.out, job.err);
  // The others are at their end, and do not meet again.
  CHECK(job.exit_code == (phase == "shutdown" ? 137 : 0));
  CHECK(job.err.find("SIGKILL") != std::string::npos);
  const std::regex line("step (\\d+) rank \\d+ of \\d+: ([0-9.]+)");
  int last = 0;
  int first_steps = 0;
  for (auto it = std::sregex_iterator(job.out.begin(), job.out.end(), line);
       it != std::sregex_iterator(); ++it) {
    CHECK((*it)[1] == (*it)[2]);
    last = std::max(last, std::stoi((*it)[1]));
    first_steps += (*it)[1] == "1" ? 1 : 0;
  }
  CHECK(first_steps <= 4);  // nobody has begun anew
  CHECK(last == 30);
  CHECK(processes_with(marker.first + "=" + marker.second).empty());
}

TEST_CASE("a death in any phase costs steps, and no more", "[elastic][phases]") {
  if (!takes_turn(2)) return;
  const std::uint64_t seed = soak_seed("deaths in phases");
  const bool all = soak_count(100) >= 100;
  const Words one_host{};
  const Words two_hosts{"--transport", "local", "-H", "a:2,b:2"};
  std::size_t number = 0;
  // A phase has 18; a sanitizer takes seconds for each.
  const std::size_t every = is_sanitized() ? 23 : 7;
  for (const std::string& phase : phases())
    for (const char* slot : {"0", "1", "3"})
      for (const char* delay : {"0", "300", "3000"})
        for (const Words& places : {one_host, two_hosts})
          // Some each time; the soak has all.
          if (all || (number++ + seed) % every == 0) check(phase, slot, delay, places);
}

}  // namespace
}  // namespace hvdrun::test
