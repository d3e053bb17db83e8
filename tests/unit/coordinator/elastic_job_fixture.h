// The job of JobFixture (a: 0 and 1, b: 2), elastic with two ranks at least, and what its agents
// say when ranks are lost and come again.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/coordinator/job_fixture.h"

namespace hvdrun {

struct ElasticJobFixture : JobFixture {
  explicit ElasticJobFixture(const JobSpec& spec = elastic_spec()) : JobFixture(spec) {}

  static JobSpec elastic_spec() {
    JobSpec spec = make_spec();
    spec.min_np = 2;
    spec.elastic_timeout = std::chrono::seconds(20);
    return spec;
  }

  // A word of a slot's agent, about the epoch of the moment.
  template <class M>
  Errc say(std::uint32_t slot, const M& message) {
    return from_agent(slot / 2, message, job.membership().epoch());
  }
  // All of the epoch meet in hvd::init.
  void meet(std::uint32_t fence = 0) {
    for (const std::uint32_t slot : job.membership().order()) {
      REQUIRE(say(slot, RanksJoined{{slot}}) == Errc::ok);
      REQUIRE(say(slot, FenceEnter{fence, {slot}, ""}) == Errc::ok);
    }
  }
  void enter(std::initializer_list<std::uint32_t> slots) {
    for (const std::uint32_t slot : slots) REQUIRE(say(slot, ElasticEntered{slot}) == Errc::ok);
  }
  // All ranks have met, and are in hvd::elastic::run.
  void run_elastic() {
    run();
    meet();
    enter({0, 1, 2});
    take();
  }
  Errc end(std::uint32_t slot, ExitKind kind, std::uint32_t value) {
    return say(slot, RankExited{slot, 1000 + slot, kind, value, false, false, {}});
  }
  void kill(std::uint32_t slot) { REQUIRE(end(slot, ExitKind::signaled, SIGKILL) == Errc::ok); }
  void die(std::uint32_t slot, bool dumps_core = false) {
    REQUIRE(say(slot, SlotDying{slot, dumps_core}) == Errc::ok);
  }
  void come(std::initializer_list<std::uint32_t> slots) {
    for (const std::uint32_t slot : slots) REQUIRE(say(slot, AtDoor{slot, true}) == Errc::ok);
  }
  // Its process has been started again, and waits to be let in.
  void come_anew(std::uint32_t slot) {
    REQUIRE(say(slot, RankStarted{slot, 2000 + slot}) == Errc::ok);
    come({slot});
  }
  void finish(std::uint32_t slot) {
    REQUIRE(say(slot, RankLeft{slot, true, false}) == Errc::ok);
    REQUIRE(end(slot, ExitKind::exited, 0) == Errc::ok);
  }
  // b goes on alone until 0 comes again: slot 2 is rank 0 then, and slot 0 rank 1.
  void turn_around() {
    run_elastic();
    kill(0);
    kill(1);
    come({2});
    come_anew(0);
    REQUIRE(job.membership().order() == std::vector<std::uint32_t>{2, 0});
    meet();
    take();
  }

  template <class M>
  static M read(const Sent& sent) {
    M message;
    REQUIRE(sent.frame.type == M::kType);
    REQUIRE_FALSE(decode(sent.frame.payload, message));
    return message;
  }
  // The lines that the user is told now.
  std::vector<std::string> lines() {
    std::vector<std::string> found;
    for (const auto& [host, log] : take_all<Log>(Target::driver)) found.push_back(log.text);
    return found;
  }
};

}  // namespace hvdrun
