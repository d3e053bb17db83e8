#include "tests/bench/fake_agents.h"

#include <utility>

#include "common/base/limits.h"

namespace hvdrun::bench {
namespace {

constexpr std::size_t kRootBlob = 128;     // bytes: NCCL's id
constexpr std::size_t kEndpoint = 64;      // bytes: where a rank's neighbours reach it
constexpr std::uint32_t kFirstPid = 1000;  // of the first rank
constexpr std::chrono::milliseconds kConnect{60'000};

std::string key_of(std::uint32_t rank) { return "endpoint/" + std::to_string(rank); }

}  // namespace

FakeAgents::FakeAgents(boost::asio::io_context& io, Options options,
                       std::function<void(Milestone)> on_milestone,
                       std::function<void(const std::string&)> on_trouble)
    : io_(io),
      options_(std::move(options)),
      on_milestone_(std::move(on_milestone)),
      on_trouble_(std::move(on_trouble)),
      tls_(make_tls_context({options_.job_id, options_.secret})),
      heartbeat_(io),
      agents_(options_.count) {
  for (std::uint32_t i = 0; i < options_.count; ++i) agents_[i].host = options_.first + i;
}

void FakeAgents::connect() {
  for (std::uint32_t i = 0; i < options_.connecting_at_once; ++i) connect_next();
  beat();
}

void FakeAgents::connect_next() {
  if (next_ == options_.count) return;
  Agent& agent = agents_[next_++];
  async_tls_connect(io_, tls_, {options_.address}, kConnect,
                    [this, &agent](std::error_code ec, std::unique_ptr<ByteStream> stream) {
                      if (ec) return on_trouble_("cannot connect: " + ec.message());
                      open(agent, std::move(stream));
                      connect_next();
                    });
}

void FakeAgents::open(Agent& agent, std::unique_ptr<ByteStream> stream) {
  agent.channel = std::make_shared<FrameChannel>(std::move(stream));
  agent.channel->start(
      [this, &agent](const Frame& frame) { on_frame(agent, frame); },
      [this](std::error_code ec) { on_trouble_("an agent's connection ended: " + ec.message()); });
  Hello hello;
  hello.role = Role::agent;
  hello.host_index = agent.host;
  hello.job_id = options_.job_id;
  agent.channel->send(hello);
}

void FakeAgents::on_frame(Agent& agent, const Frame& frame) {
  switch (frame.type) {
    case MessageType::welcome:
      return up(agent, AgentReady{agent.host + 1, 8, 29500, "127.0.0.1"});
    case MessageType::launch: {
      Launch launch;
      if (decode(frame.payload, launch)) return on_trouble_("a launch cannot be read");
      agent.epoch = frame.epoch;
      agent.size = launch.size;
      for (const RankPlace& slot : launch.slots) {
        agent.ranks.push_back(slot.rank);
        up(agent, RankStarted{slot.rank, kFirstPid + slot.rank});
      }
      return;
    }
    case MessageType::fence_release: {
      FenceRelease release;
      if (decode(frame.payload, release) || release.blob != std::string(kRootBlob, 'i'))
        return on_trouble_("the fence carries another blob");
      reach(Milestone::released, released_);
      return fetch(agent);
    }
    case MessageType::store_value: {
      StoreValue value;
      if (decode(frame.payload, value) || value.code != Errc::ok ||
          value.value != std::string(kEndpoint, 'e'))
        return on_trouble_("the store gave another value");
      if (--agent.to_fetch == 0) reach(Milestone::fetched, fetched_);
      return;
    }
    case MessageType::end_job:
      agent.channel->close();
      return reach(Milestone::ended, ended_);
    case MessageType::store_ack:
    case MessageType::heartbeat:
      return;
    default:
      return on_trouble_("message " + std::to_string(static_cast<int>(frame.type)) +
                         " was not expected");
  }
}

void FakeAgents::join() {
  for (Agent& agent : agents_) {
    FenceEnter enter;
    for (const std::uint32_t rank : agent.ranks) {
      up(agent, RanksJoined{{rank}});
      up(agent, StorePut{rank, key_of(rank), std::string(kEndpoint, 'e')});
      if (rank == 0) enter.blob.assign(kRootBlob, 'i');
    }
    enter.ranks = agent.ranks;
    up(agent, enter);
  }
}

void FakeAgents::fetch(Agent& agent) {
  std::uint64_t request = 0;
  for (const std::uint32_t rank : agent.ranks)
    for (const std::uint32_t step : {1U, agent.size - 1}) {
      ++agent.to_fetch;
      up(agent, StoreGet{request++, key_of((rank + step) % agent.size), 60'000});
    }
}

void FakeAgents::exit() {
  for (Agent& agent : agents_)
    for (const std::uint32_t rank : agent.ranks) {
      up(agent, RankLeft{rank, true});
      up(agent,
         RankExited{rank, kFirstPid + rank, ExitKind::exited, 0, false, false, std::string()});
    }
}

void FakeAgents::beat() {
  heartbeat_.expires_after(limits::kHeartbeat);
  heartbeat_.async_wait([this](const auto& ec) {
    if (ec || ended_ == options_.count) return;
    for (Agent& agent : agents_)
      if (agent.size > 0) up(agent, Heartbeat{});
    beat();
  });
}

void FakeAgents::reach(Milestone milestone, std::uint32_t& count) {
  if (++count == options_.count) on_milestone_(milestone);
}

}  // namespace hvdrun::bench
