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
  agent.channel->start([this, &agent](const Frame& frame) { on_frame(agent, frame); },
                       [this, &agent](std::error_code ec) {
                         if (agent.channel)
                           on_trouble_("an agent's connection ended: " + ec.message());
                       });
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
      if (launch.comes_back) return;
      for (const RankPlace& slot : launch.slots) {
        agent.ranks.push_back(slot.rank);
        agent.has_root = agent.has_root || slot.rank == 0;
        up(agent, RankStarted{slot.rank, kFirstPid + slot.rank});
      }
      return;
    }
    case MessageType::fence_release: {
      FenceRelease release;
      if (decode(frame.payload, release) || release.blob != std::string(kRootBlob, 'i'))
        return on_trouble_("the fence carries another blob");
      reach(Milestone::released, released_);
      return options_.elastic ? void() : fetch(agent);
    }
    case MessageType::store_value: {
      StoreValue value;
      if (decode(frame.payload, value) || value.code != Errc::ok ||
          value.value != std::string(kEndpoint, 'e'))
        return on_trouble_("the store gave another value");
      if (--agent.to_fetch == 0) reach(Milestone::fetched, fetched_);
      return;
    }
    case MessageType::peer_lost:
    case MessageType::meeting_wanted:
    case MessageType::start_slot:
    case MessageType::begin_epoch:
      return on_elastic_frame(agent, frame);
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
  for (Agent& agent : agents_) join(agent);
}

void FakeAgents::join(Agent& agent) {
  FenceEnter enter;
  for (const std::uint32_t rank : agent.ranks) {
    up(agent, RanksJoined{{rank}});
    if (!options_.elastic) up(agent, StorePut{rank, key_of(rank), std::string(kEndpoint, 'e')});
  }
  if (agent.has_root) enter.blob.assign(kRootBlob, 'i');
  enter.ranks = agent.ranks;
  up(agent, enter);
}

void FakeAgents::enter_elastic() {
  for (Agent& agent : agents_)
    for (const std::uint32_t rank : agent.ranks) up(agent, ElasticEntered{rank});
}

void FakeAgents::lose_one() {
  const auto channel = std::exchange(agents_.front().channel, nullptr);
  channel->close();
  // The others reach everything without it.
  ++begun_;
  ++released_;
}

void FakeAgents::on_elastic_frame(Agent& agent, const Frame& frame) {
  StartSlot start;
  BeginEpoch begin;
  if (frame.type == MessageType::start_slot && !decode(frame.payload, start)) {
    agent.ranks.push_back(start.slot.rank);
    up(agent, RankStarted{start.slot.rank, kFirstPid + start.slot.rank});
    return up(agent, AtDoor{start.slot.rank, true});
  }
  if (frame.type != MessageType::begin_epoch) return come_to_doors(agent);
  if (decode(frame.payload, begin)) return on_trouble_("a new epoch cannot be read");
  agent.epoch = frame.epoch;
  agent.at_door = false;
  if (begin.here.empty() || begin.here.size() != agent.ranks.size())
    return on_trouble_("an epoch leaves out ranks");
  agent.has_root = begin.here.front().place.rank == 0;
  if (++begun_ == options_.count) {
    begun_ = agents_.front().channel ? 0 : 1;
    released_ = begun_;
    on_milestone_(Milestone::begun);
  }
  join(agent);
}

void FakeAgents::come_to_doors(Agent& agent) {
  if (std::exchange(agent.at_door, true)) return;
  for (const std::uint32_t rank : agent.ranks) up(agent, AtDoor{rank, true});
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
