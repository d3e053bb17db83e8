#include "coordinator/server.h"

#include <algorithm>
#include <cerrno>
#include <chrono>

#include <boost/asio/post.hpp>

#include "common/base/limits.h"
#include "common/net/clock_offset.h"
#include "common/net/host_addresses.h"
#include "common/net/unix_stream.h"
#include "common/wire/hello.h"

namespace hvdrun {
namespace {

namespace asio = boost::asio;

// After the end, for agents and driver to take their last frames and go.
constexpr std::chrono::milliseconds kLeaveTimeout{5'000};
constexpr std::size_t kNamedSilent = 8;  // in one line

TimePoint now() { return std::chrono::steady_clock::now(); }

// "3 s", "17.2 s"
std::string seconds_text(std::chrono::milliseconds time) {
  const auto tenths = time.count() / 100;
  const std::string whole = std::to_string(tenths / 10);
  return whole + (tenths % 10 != 0 ? "." + std::to_string(tenths % 10) : "") + " s";
}

// "host a has", "hosts a, b and 7 more have"
std::string who_has(const std::vector<std::uint32_t>& indices,
                    const std::vector<HostSlots>& hosts) {
  std::string names;
  for (std::size_t i = 0; i < std::min(indices.size(), kNamedSilent); ++i)
    names += (i > 0 ? ", " : "") + hosts[indices[i]].name;
  if (indices.size() == 1) return "host " + names + " has";
  if (indices.size() > kNamedSilent)
    names += " and " + std::to_string(indices.size() - kNamedSilent) + " more";
  return "hosts " + names + " have";
}

}  // namespace

Server::Server(asio::io_context& io, ServerOptions options)
    : io_(io),
      job_(std::move(options.spec), now()),
      driver_pid_(options.driver_pid),
      agents_(job_.spec().hosts().size()),
      timer_(io) {
  const auto open = [this](UniqueFd fd, Origin origin) {
    handshake(std::make_shared<FrameChannel>(make_unix_stream(io_, std::move(fd))), origin);
  };
  open(std::move(options.driver), Origin::driver);
  for (UniqueFd& fd : options.agents) open(std::move(fd), Origin::this_machine);
  if (options.listener) {
    listener_.emplace(
        io_, std::move(options.listener), PskKey{job_.spec().job_id, std::move(options.secret)},
        [this](std::unique_ptr<ByteStream> stream) {
          // They know the key, so they are agents: all of them may come at once.
          if (handshaking_.size() < agents_.size() + limits::kMaxPendingHandshakes)
            handshake(std::make_shared<FrameChannel>(std::move(stream)), Origin::elsewhere);
        },
        [this](const std::string& trouble) { log(LogLevel::warn, trouble); });
  }
  if (job_.spec().env_compat.horovod) serve_horovod(std::move(options.horovod));
  arm_timer();
}

void Server::serve_horovod(UniqueFd listener) {
  const JobSpec& spec = job_.spec();
  const RankTable& ranks = spec.seen_by_horovod();
  if (!listener) {
    horovod_hub_.emplace(job_.membership().epoch(), agents_.size(),
                         spec.min_np > 0 ? HorovodHub::elastic_limits() : HorovodLimits());
    if (spec.min_np > 0)
      horovod_hub_->set_comes_early(
          [this](std::uint32_t host, std::uint32_t rank) { return comes_early(host, rank); });
    return horovod_hub_->assign(members_of(ranks), job_.membership().epoch());
  }
  horovod_.emplace(
      io_, std::move(listener),
      [this](const std::string& trouble) { log(LogLevel::warn, trouble); },
      [this](HorovodStore::Gathering who) {
        note_gathering(std::move(who));
        // Not from within the server, which the end of the job takes away.
        asio::post(io_, [this] { after_event(); });
      });
  horovod_->assign(ranks);
}

void Server::note_gathering(HorovodStore::Gathering who) {
  job_.horovod_gathering(std::move(who.present), std::move(who.missing), now());
}

Errc Server::on_horovod(std::uint32_t host, const Frame& frame) {
  if (!horovod_hub_) return Errc::unexpected_message;
  const Errc fault = horovod_hub_->agent_frame(host, frame);
  note_horovod();
  for (const HorovodHub::Said& said : horovod_hub_->take_said()) {
    if (said.what == HorovodHub::Said::What::at_door)
      job_.horovod_at_door(said.host, said.member, now());
    else
      job_.horovod_entered(said.host, said.member, said.value, now());
  }
  if (job_.waits_for_horovod_places()) horovod_hub_->wait_for_places();
  send_horovod();
  return fault;
}

void Server::note_horovod() {
  const HorovodStore& store = horovod_hub_->store();
  if (const std::uint64_t version = store.gathering_version();
      std::exchange(noted_gathering_, version) != version)
    note_gathering(store.gathering());
  if (std::exchange(noted_meetings_, store.meetings()) != store.meetings()) job_.horovod_met(now());
}

bool Server::comes_early(std::uint32_t host, std::uint32_t rank) {
  return job_.horovod_arrives(host, rank, horovod_hub_->store().has_come(rank), now()) !=
         Job::Arrival::member;
}

void Server::send_horovod() {
  for (HorovodHub::Action& action : horovod_hub_->take_actions())
    send_to_agent(action.host, std::move(action.frame), std::move(action.rest));
}

void Server::send_to_agent(std::uint32_t host, std::string frame,
                           std::shared_ptr<const std::string> rest) {
  const auto channel = agents_[host].channel;
  if (channel && rest) {
    channel->send_shared(std::move(frame), std::move(rest));
  } else if (channel) {
    channel->send_bytes(std::move(frame));
  }
}

Server::~Server() = default;

void Server::run() { io_.run(); }

void Server::handshake(const std::shared_ptr<FrameChannel>& channel, Origin origin) {
  const bool is_driver = origin == Origin::driver;
  handshaking_.insert(channel);
  const auto deadline = std::make_shared<asio::steady_timer>(io_, limits::kHandshakeTimeout);
  const std::weak_ptr<FrameChannel> weak = channel;
  deadline->async_wait([this, weak](const auto& ec) {
    const auto late = weak.lock();
    if (!ec && late && handshaking_.contains(late)) refuse(late, Errc::timeout, "no hello came");
  });
  channel->start(
      [this, weak, origin, is_driver, deadline](const Frame& frame) {
        const auto self = weak.lock();
        if (!self || !handshaking_.contains(self)) return;
        deadline->cancel();
        Hello hello;
        if (const auto refusal = check_hello(frame, job_.spec().job_id, hello))
          return refuse(self, refusal->code, refusal->reason);
        const bool fits = is_driver
                              ? hello.role == Role::driver && !driver_
                              : hello.role == Role::agent && job_.expects_agent(hello.host_index);
        if (!fits) return refuse(self, Errc::unexpected_message, "nobody like that is expected");
        handshaking_.erase(self);
        self->send(Welcome{});
        if (is_driver) {
          adopt_driver(self);
        } else {
          adopt_agent(self, hello.host_index, origin);
        }
        after_event();
      },
      [this, weak, deadline, is_driver](std::error_code) {
        deadline->cancel();
        handshaking_.erase(weak.lock());
        // Whoever inherits a descriptor and dies before its hello would leave a job that waits.
        if (is_driver) job_.driver_lost(now());
        after_event();
      });
}

void Server::refuse(const std::shared_ptr<FrameChannel>& channel, Errc code,
                    const std::string& reason) {
  handshaking_.erase(channel);
  log(LogLevel::warn, "refused a connection: " + reason);
  channel->send(Refuse{code, reason});
  channel->close_when_sent();
}

void Server::adopt_agent(const std::shared_ptr<FrameChannel>& channel, std::uint32_t host,
                         Origin origin) {
  agents_[host] = {channel, std::nullopt};
  if (origin == Origin::elsewhere) {
    agents_[host].lease.emplace(job_.spec().lease, now());
    channel->keep_trying_for(patience_of(job_.spec().lease));
    if (next_look_ == TimePoint::max())
      next_look_ = next_heartbeat_ = now() + heartbeat_of(job_.spec().lease);
  }
  ++agents_here_;
  job_.agent_connected(host);
  channel->set_callbacks(
      [this, host](const Frame& frame) {
        heard_from(host);
        RankProbes probes;
        const bool probed =
            frame.type == MessageType::rank_probes && !decode(frame.payload, probes);
        if (answer_clock(host, frame)) return;
        if (frame.type == MessageType::agent_ready) note_own_address(host, frame);
        const Errc fault = probed                          ? board_.answered(host, probes)
                           : HorovodHub::takes(frame.type) ? on_horovod(host, frame)
                                                           : job_.agent_frame(host, frame, now());
        if (fault != Errc::ok) lose_agent(host, make_error_code(fault).message());
        after_event();
      },
      [this, host](std::error_code ec) {
        lose_agent(host, ec == Errc::closed ? "its agent is gone" : ec.message());
        after_event();
      });
}

// At once, because the time that it takes makes the answer worse.
bool Server::answer_clock(std::uint32_t host, const Frame& frame) {
  ClockQuery query;
  if (frame.type != MessageType::clock_query || decode(frame.payload, query)) return false;
  if (clock_.empty()) clock_ = own_clock();
  agents_[host].channel->send(ClockReply{query.sent_ns, monotonic_ns(), clock_},
                              job_.membership().epoch());
  return true;
}

// Where an agent elsewhere has reached us is where others find this machine. A relay comes over
// loopback; then it is the address on the way there.
void Server::note_own_address(std::uint32_t host, const Frame& frame) {
  std::string address = agents_[host].channel->local_ip();
  AgentReady ready;
  if (address.empty() || decode(frame.payload, ready)) return;
  const bool relayed = address == "127.0.0.1" || address == "::1";
  if (relayed && !own_address_known_) address = address_towards(ready.address);
  if (!own_address_known_ && !address.empty()) job_.set_own_address(address);
  own_address_known_ = own_address_known_ || !relayed;
}

void Server::adopt_driver(const std::shared_ptr<FrameChannel>& channel) {
  driver_ = channel;
  const auto lose = [this] {
    driver_->close();
    job_.driver_lost(now());
  };
  channel->set_callbacks(
      [this, lose](const Frame& frame) {
        StatusQuery query;
        if (frame.type == MessageType::status_query && !decode(frame.payload, query)) {
          on_query(query);
          return after_event();
        }
        if (job_.driver_frame(frame, now()) != Errc::ok) lose();
        after_event();
      },
      [this, lose](std::error_code) {
        lose();
        after_event();
      });
}

void Server::lose_agent(std::uint32_t host, const std::string& why) {
  hang_up(host);
  job_.agent_lost(host, why, now());
}

void Server::hang_up(std::uint32_t host) {
  if (agents_[host].channel) {
    agents_[host].channel->close();
    agents_[host].channel.reset();
    --agents_here_;
  }
  board_.forget_host(host);
  if (horovod_hub_) horovod_hub_->agent_lost(host);
}

void Server::on_query(const StatusQuery& query) {
  std::set<std::uint32_t> hosts;
  if (query.probe && job_.state() != JobState::waiting)
    for (std::uint32_t host = 0; host < agents_.size(); ++host)
      if (agents_[host].channel) hosts.insert(host);
  const std::uint64_t request = board_.ask(query.asker, hosts, now());
  for (const std::uint32_t host : hosts) agents_[host].channel->send(ProbeRanks{request});
}

void Server::answer_queries() {
  for (const StatusBoard::Answer& answer : board_.take_ready(now())) {
    JobStatus status = job_.status(now());
    status.driver_pid = driver_pid_;
    add_probes(status, answer.probes);
    cut_to_limits(status);
    status.asker = answer.asker;
    if (driver_) driver_->send(status);
  }
}

void Server::after_event() {
  answer_queries();
  if (const std::size_t hosts = job_.membership().hosts().size(); hosts > agents_.size()) {
    agents_.resize(hosts);
    if (horovod_hub_) horovod_hub_->grow(hosts);
  }
  // A new epoch may let somebody come who has others meet at once.
  for (bool again = true; again;) {
    for (const std::uint32_t host : job_.take_given_up_agents()) hang_up(host);
    for (Job::Action& action : job_.take_actions()) {
      if (action.target == Job::Action::Target::driver)
        to_driver(std::move(action.frame));
      else
        send_to_agent(action.host, std::move(action.frame), std::move(action.rest));
    }
    for (const auto& [host, rank] : job_.take_horovod_gone())
      if (horovod_hub_) horovod_hub_->forget_early(host, rank);
    const auto epoch = job_.take_horovod_epoch();
    again = epoch && horovod_hub_;
    if (!again) break;
    horovod_hub_->assign(epoch->places, job_.membership().epoch(), &epoch->by_last_name);
    note_horovod();
    send_horovod();
  }
  if (job_.state() == JobState::ended) {
    if (!leave_by_) {
      leave_by_ = now() + kLeaveTimeout;
      listener_.reset();
      horovod_.reset();
    }
    if (agents_here_ == 0 && handshaking_.empty()) {
      timer_.cancel();
      // The driver leaves last; its verdict may still be on the way.
      if (driver_) driver_->close_when_sent();
      return;
    }
  }
  arm_timer();
}

void Server::arm_timer() {
  TimePoint next = next_look_;
  if (const auto deadline = job_.next_deadline()) next = std::min(next, *deadline);
  if (leave_by_) next = std::min(next, *leave_by_);
  if (const auto deadline = board_.next_deadline()) next = std::min(next, *deadline);
  if (timer_.expiry() == next) return;
  // Also when nothing but frames is waited for: a timer that is cancelled alone leaves the kernel's
  // at the old time, for a wake-up without a reason.
  timer_.expires_at(next);
  timer_.async_wait([this](const auto& ec) {
    if (!ec) on_timer();
  });
}

void Server::on_timer() {
  const TimePoint time = now();
  if (leave_by_ && time >= *leave_by_) {
    io_.stop();
    return;
  }
  if (time >= next_look_) look_after_agents(time);
  job_.tick(time);
  after_event();
}

void Server::look_after_agents(TimePoint time) {
  const bool beat = time >= next_heartbeat_;
  if (beat) next_heartbeat_ = time + heartbeat_of(job_.spec().lease);
  next_look_ = next_heartbeat_;
  std::vector<std::uint32_t> silent;
  for (std::uint32_t host = 0; host < agents_.size(); ++host) {
    Peer& agent = agents_[host];
    if (!agent.channel || !agent.lease) continue;
    if (agent.lease->is_over(time)) {
      lose_agent(host, "it has said nothing for " + seconds_text(agent.lease->silence_at(time)));
      continue;
    }
    if (beat) agent.channel->send(Heartbeat{});
    if (beat && agent.lease->names_silence(time)) silent.push_back(host);
    next_look_ = std::min(next_look_, agent.lease->end());
  }
  if (!silent.empty() && job_.state() == JobState::running)
    warn(who_has(silent, job_.membership().hosts()) + " said nothing for " +
         seconds_text(limits::kSilence) + "; the lease is " + seconds_text(job_.spec().lease));
}

void Server::heard_from(std::uint32_t host) {
  if (!agents_[host].lease) return;
  const auto silence = agents_[host].lease->heard(now());
  if (silence && job_.state() == JobState::running)
    warn("host " + job_.membership().hosts()[host].name + " is heard again, after " +
         seconds_text(*silence));
}

void Server::to_driver(std::string frame) {
  if (!driver_) return;
  if (const auto notice = backlog_.take_notice(driver_->queued()))
    driver_->send(Log{LogLevel::warn, *notice});
  if (backlog_.admits(type_of(frame), driver_->queued())) driver_->send_bytes(std::move(frame));
}

void Server::warn(const std::string& text) { to_driver(encode_frame(Log{LogLevel::warn, text})); }

void Server::log(LogLevel level, const std::string& text) {
  to_driver(encode_frame(Log{level, "coordinator: " + text}));
}

}  // namespace hvdrun
