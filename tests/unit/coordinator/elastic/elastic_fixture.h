// An elastic job of four ranks on two hosts (a: 0 and 1, b: 2 and 3), stepped by hand.
#pragma once

#include <chrono>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "coordinator/elastic/elastic_job.h"
#include "tests/catch.h"

namespace hvdrun {

struct ElasticFixture {
  explicit ElasticFixture(std::uint32_t min_np = 2)
      : job({{{"a", 2}, {"b", 2}}, 4}, min_np, std::chrono::seconds(60)) {}

  // All have met, and say that they go on.
  void run() {
    for (std::uint32_t slot = 0; slot < 4; ++slot) job.entered(slot);
    job.opened(now);
    REQUIRE(job.goes_on());
    REQUIRE(did().empty());
  }
  void lose(std::uint32_t slot) { job.lost(slot, "was killed", now); }
  void die(std::uint32_t slot) { job.dying(slot, now); }
  void come(std::initializer_list<std::uint32_t> slots) {
    for (const std::uint32_t slot : slots) job.at_door(slot, true, now);
  }
  void finish(std::uint32_t slot) {
    job.leaves(slot, now);
    job.done(slot, now);
  }
  // Time passes; whoever wants to be called is.
  void wait(std::chrono::milliseconds time) {
    now += time;
    job.tick(now);
    const auto next = job.next_deadline();
    if (next) CHECK(*next > now);
  }

  // The decisions since the last call, in short: "start 2; begin 0 1". What is said is in `lines`,
  // and why the job has too few ranks in `end`.
  std::string did() {
    using What = ElasticJob::Decision::What;
    std::string text;
    lines.clear();
    const auto add = [&text](const std::string& word) {
      text += (text.empty() ? "" : "; ") + word;
    };
    for (const ElasticJob::Decision& one : job.take_decisions()) {
      switch (one.what) {
        case What::add_slot:
          add("add " + std::to_string(one.slot) + " on " + std::to_string(one.host));
          break;
        case What::open_hosts:
          break;
        case What::retire_slot:
          add("retire " + std::to_string(one.slot));
          break;
        case What::too_many:
          add("too many");
          end = one.text;
          break;
        case What::start_slot:
          add("start " + std::to_string(one.slot));
          break;
        case What::end_slot:
          add("end " + std::to_string(one.slot));
          break;
        case What::begin_epoch: {
          std::string words = "begin";
          for (const std::uint32_t slot : one.dealt.slots) words += " " + std::to_string(slot);
          add(words);
          break;
        }
        case What::ask_meeting:
          add("ask");
          break;
        case What::say:
          lines.push_back(one.text);
          break;
        case What::too_few:
          add("too few");
          end = one.text;
          break;
        case What::all_lost:
          add("all lost " + std::to_string(one.slot));
          break;
        case What::finished:
          add("finished");
          break;
      }
    }
    return text;
  }

  ElasticJob job;
  TimePoint now{std::chrono::seconds(1000)};
  std::vector<std::string> lines;
  std::string end;
};

struct ThreeAtLeast : ElasticFixture {
  ThreeAtLeast() : ElasticFixture(3) {}
};

}  // namespace hvdrun
