// The hosts as programs of Horovod see them, and what their store costs the coordinator.

#include "cli/plan/horovod_hosts.h"
#include "cli/plan/launch_plan.h"
#include "coordinator/horovod/horovod_hub.h"
#include "coordinator/launch_messages.h"
#include "tests/catch.h"
#include "worker/agent/horovod/horovod_mirror.h"

namespace hvdrun {
namespace {

std::string seen(std::vector<std::string> args) {
  Surroundings surroundings;
  surroundings.hostname = "node7";
  surroundings.cwd = "/work";
  args.emplace_back("true");
  const JobSpec spec = make_plan(parse_options(args), surroundings).spec;
  std::string text;
  for (const HorovodSlot& slot : horovod_slots(spec))
    text += (text.empty() ? "" : " ") + slot.host + ":" + std::to_string(slot.place.local_rank) +
            "/" + std::to_string(slot.place.local_size) + "," +
            std::to_string(slot.place.cross_rank) + "/" + std::to_string(slot.place.cross_size);
  return text;
}

TEST_CASE("names of this machine are hosts of their own to programs of Horovod", "[horovod]") {
  CHECK(seen({"-H", "localhost:2,127.0.0.1:2"}) ==
        "localhost:0/2,0/2 localhost:1/2,0/2 127.0.0.1:0/2,1/2 127.0.0.1:1/2,1/2");
  // hvdrun keeps them together, in the place of the first.
  CHECK(seen({"-H", "localhost:1,gpu1:2,node7:1"}) ==
        "localhost:0/1,0/3 node7:0/1,1/3 gpu1:0/2,2/3 gpu1:1/2,0/1");
  CHECK(seen({"-np", "3", "-H", "localhost:2,127.0.0.1:2"}) ==
        "localhost:0/2,0/2 localhost:1/2,0/1 127.0.0.1:0/1,1/2");
  CHECK(seen({"-np", "4", "-H", "localhost:1,127.0.0.1:1", "--oversubscribe"}) ==
        "localhost:0/1,0/2 127.0.0.1:0/3,1/2 127.0.0.1:1/3,0/1 127.0.0.1:2/3,0/1");
  CHECK(seen({"-H", "localhost:0,127.0.0.1:2"}) == "127.0.0.1:0/2,0/1 127.0.0.1:1/2,0/1");
}

TEST_CASE("a host that has one name of its own is seen as it is", "[horovod]") {
  CHECK(seen({"-np", "2"}).empty());
  CHECK(seen({"-H", "localhost:2,gpu1:2,gpu2:1"}).empty());
  CHECK(seen({"-H", "localhost:2,localhost:2"}).empty());
  CHECK(seen({"--env-compat", "torch", "-H", "localhost:2,127.0.0.1:2"}).empty());
}

TEST_CASE("no two hosts have one name to programs of Horovod", "[horovod]") {
  CHECK(seen({"-H", "gpu1:1,me@gpu1:1,gpu1:2222:1"}) ==
        "gpu1:0/1,0/3 me@gpu1:0/1,1/3 gpu1:2222:0/1,2/3");
  CHECK(seen({"-H", "me@gpu1:1,gpu1:1"}) == "gpu1:0/1,0/2 gpu1-2:0/1,1/2");
}

// All hosts of a job with their coordinator: frames go both ways until nobody has one left.
struct HorovodJob {
  HorovodJob(std::uint32_t hosts, std::uint32_t slots) : hub(1, hosts) {
    std::vector<HostSlots> list;
    for (std::uint32_t host = 0; host < hosts; ++host)
      list.push_back({"h" + std::to_string(host), slots});
    hub.assign(members_of({list, hosts * slots}), 1);
    for (std::uint32_t host = 0; host < hosts; ++host) mirrors.emplace_back(1);
  }
  void move() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::uint32_t host = 0; host < mirrors.size(); ++host)
        for (const std::string& bytes : mirrors[host].take_frames()) {
          through += bytes.size();
          moved = true;
          REQUIRE(hub.agent_frame(host, frame_of(bytes, nullptr)) == Errc::ok);
        }
      for (const HorovodHub::Action& action : hub.take_actions()) {
        through += action.frame.size() + (action.rest ? action.rest->size() : 0);
        moved = true;
        REQUIRE(mirrors[action.host].coordinator_frame(frame_of(action.frame, action.rest)) ==
                Errc::ok);
      }
    }
  }
  static Frame frame_of(const std::string& bytes, const HorovodBytes& rest) {
    FrameDecoder decoder;
    decoder.feed(bytes);
    if (rest) decoder.feed(*rest);
    std::error_code ec;
    return decoder.next(ec).value();
  }
  // A member's request, until it is answered.
  HorovodAnswer ask(std::uint32_t host, const std::string& method, const std::string& target,
                    const std::string& body = {}) {
    HttpRequest request;
    request.method = method;
    request.target = target;
    request.body = body;
    request.has_length = true;
    HorovodAnswer answer = mirrors[host].answer(std::move(request), 1);
    if (answer.status != 0) return answer;
    move();
    for (HorovodMirror::Late& late : mirrors[host].take_late()) return std::move(late.answer);
    answer = mirrors[host].overdue(1);
    if (answer.status != 0) return answer;
    FAIL("no answer to " << method << " " << target);
    return {};
  }

  HorovodHub hub;
  std::vector<HorovodMirror> mirrors;
  std::uint64_t through = 0;  // bytes that the coordinator has sent and got
};

// Does what the members of one scope do, in the order of Gloo's. Returns the bytes that they would
// read and write at a store that each of them reaches itself.
std::uint64_t meet(HorovodJob& job, std::uint32_t slots, const std::string& round) {
  const auto hosts = static_cast<std::uint32_t>(job.mirrors.size());
  const std::uint32_t size = hosts * slots;
  std::uint64_t alone = 0;
  const auto value = [&](std::uint32_t member) {
    return std::string(std::size_t{136} * (size - 1), static_cast<char>(member)) + round;
  };
  const auto ask = [&](std::uint32_t member, const std::string& method, const std::string& key,
                       const std::string& body = {}) {
    const HorovodAnswer answer = job.ask(member / slots, method, "/global/" + key, body);
    alone += body.size() + (answer.value ? answer.value->size() : 0);
    return answer;
  };
  // Everybody waits for the first member, who is late.
  for (std::uint32_t member = 1; member < size; ++member) {
    const std::string own = std::to_string(member);
    REQUIRE(ask(member, "PUT", "rank_" + own, "host").status == 200);
    for (std::uint32_t other = 1; other < member; ++other)
      REQUIRE(ask(member, "GET", "rank_" + std::to_string(other)).status == 200);
    REQUIRE(ask(member, "PUT", own, value(member)).status == 200);
    REQUIRE(ask(member, "GET", "0").status == 404);
  }
  REQUIRE(ask(0, "PUT", "rank_0", "host").status == 200);
  REQUIRE(ask(0, "PUT", "0", value(0)).status == 200);
  job.move();
  const std::uint64_t before_polls = job.through;
  for (std::uint32_t member = 0; member < size; ++member)
    for (std::uint32_t other = 0; other < size; ++other) {
      if (other == member) continue;
      const std::string key = std::to_string(other);
      for (int twice = 0; twice < 2; ++twice) {
        const HorovodAnswer answer = ask(member, "GET", key);
        REQUIRE(answer.status == 200);
        const std::string& got = *answer.value;
        if (got.front() != static_cast<char>(other) || !got.ends_with(round)) FAIL("a stale value");
      }
    }
  job.move();
  CHECK(job.through < before_polls + hosts * std::uint64_t{1000});  // credit
  for (std::uint32_t member = 0; member < size; ++member)
    REQUIRE(ask(member, "DELETE", std::to_string(member)).status == 200);
  return alone;
}

TEST_CASE("a value goes through the coordinator once a host, and polls do not", "[horovod]") {
  // 512 members on 64 hosts: 4.6 GB, and 73 GB without the copies.
  const std::uint32_t hosts = 8;
  const std::uint32_t slots = 8;
  HorovodJob job(hosts, slots);
  std::uint64_t alone = 0;
  for (const char* round : {"a", "b"}) alone += meet(job, slots, round);
  CHECK(job.hub.store().keys() == 0);
  const double fewer = static_cast<double>(alone) / static_cast<double>(job.through);
  INFO(job.through << " bytes through the coordinator, " << alone << " without the copies");
  // Each member reads each value twice.
  CHECK(fewer > 1.8 * slots);
  CHECK(fewer < 2.2 * slots);
}

}  // namespace
}  // namespace hvdrun
