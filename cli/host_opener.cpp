#include "cli/host_opener.h"

#include <algorithm>
#include <utility>

namespace hvdrun {
namespace {

// So many clients at once: each needs a core for a while to agree on keys.
constexpr std::ptrdiff_t kAtOnce = 32;
constexpr std::chrono::seconds kReport{3};
constexpr std::size_t kNamed = 8;
constexpr int kSshFailed = 255;  // the client's own code

}  // namespace

HostOpener::HostOpener(boost::asio::io_context& io, SshOptions options,
                       std::chrono::milliseconds limit, RelayPorts ports, Callbacks callbacks)
    : io_(io),
      options_(std::move(options)),
      limit_(limit),
      relay_ports_(ports),
      callbacks_(std::move(callbacks)),
      timer_(io) {}

void HostOpener::add(std::uint32_t host, const std::string& name, const HostLogin& login,
                     std::shared_ptr<const AgentImage> agent, std::string job) {
  SshOptions options = with_login(options_, login);
  SshHost::Request request;
  request.argv = ssh_command(options, name, limit_, remote_script(*agent));
  request.agent = std::move(agent);
  request.job = std::move(job);
  auto entry = std::unique_ptr<Host>(
      new Host{host, name, std::move(options), SshHost(io_, std::move(request)), nullptr});
  waiting_.push_back(entry.get());
  hosts_[host] = std::move(entry);
}

void HostOpener::open() {
  if (hosts_.empty()) return;
  open_next();
  report();
}

SshHost::Callbacks HostOpener::callbacks_of(Host& host) {
  HostRelay::Callbacks relay;
  relay.write = [&host](std::string bytes, std::function<void()> done) {
    host.ssh.send(std::move(bytes), std::move(done));
  };
  relay.on_begin = [this, &host] { callbacks_.relayed(host.index); };
  relay.on_fault = [this, &host](std::error_code ec) {
    callbacks_.say(host.name + ": what its agent says through ssh makes no sense: " + ec.message());
    host.ssh.close_lease();
  };
  host.relay = std::make_unique<HostRelay>(io_, relay_ports_, std::move(relay));
  SshHost::Callbacks callbacks;
  callbacks.on_stage = [this] { open_next(); };
  callbacks.on_line = [this, &host](const std::string& line) {
    callbacks_.say(host.name + ": " + line);
  };
  callbacks.on_bytes = [&host](std::string_view bytes) {
    bytes.empty() ? host.relay->end() : host.relay->feed(bytes);
  };
  return callbacks;
}

void HostOpener::open_next() {
  auto opening = std::count_if(hosts_.begin(), hosts_.end(),
                               [](const auto& entry) { return entry.second->opening(); });
  for (; opening < kAtOnce && !waiting_.empty() && !ending_; ++opening) {
    Host& host = *waiting_.front();
    waiting_.pop_front();
    const std::error_code ec = host.ssh.start(callbacks_of(host));
    if (ec) {
      host.state = Host::State::ended;
      refuse(host, options_.program.front() + ": " + ec.message());
    } else {
      host.state = Host::State::running;
      callbacks_.started(host.index, host.ssh.client());
    }
  }
  tell_if_all_tried();
}

std::optional<std::string> HostOpener::ended(std::uint32_t index, const ExitStatus& status) {
  Host& host = *hosts_.at(index);
  host.state = Host::State::ended;
  host.ssh.drain();
  const std::string how = (status.signaled ? "was killed by signal " : "ended with code ") +
                          std::to_string(status.value);
  if (!host.ssh.started()) {
    const std::string words = host.ssh.last_words();
    refuse(host, words.empty() ? options_.program.front() + " " + how : words);
    open_next();
    return std::nullopt;
  }
  if (status.signaled) return "its ssh " + how;
  if (status.value == kSshFailed) return "the ssh connection to it broke";
  if (status.value != 0) return "its guard " + how;
  return std::nullopt;
}

void HostOpener::refuse(Host& host, const std::string& why) {
  callbacks_.gone(host.index);
  if (ending_) return;  // as it was told to
  Refusal refusal;
  refusal.host = host.name;
  refusal.why = std::string(describe(host.ssh.stage())) + ": " + why;
  refusal.lines.push_back("host " + host.name + " (" + describe(host.ssh.stage()) + "): " + why);
  std::string advice = "  to see it by hand: " + ssh_by_hand(host.options, host.name);
  if (is_unknown_host_key(why)) advice += "; or trust new hosts with --accept-new-host-keys";
  refusal.lines.push_back(std::move(advice));
  refusals_.push_back(std::move(refusal));
}

// The user wants to know of all hosts that cannot be used, not of one after the other.
void HostOpener::tell_if_all_tried() {
  if (refusals_.empty() || ending_ || !waiting_.empty()) return;
  if (std::any_of(hosts_.begin(), hosts_.end(),
                  [](const auto& entry) { return entry.second->opening(); }))
    return;
  callbacks_.failed(std::exchange(refusals_, {}));
}

void HostOpener::report() {
  timer_.expires_after(kReport);
  timer_.async_wait([this](const auto& ec) {
    if (ec || ending_) return;
    std::string names;
    std::size_t count = 0;
    for (const auto& [index, host] : hosts_) {
      if (host->state == Host::State::ended || callbacks_.is_connected(index)) continue;
      if (++count <= kNamed)
        names += (count > 1 ? ", " : "") + host->name + " (" + describe(host->ssh.stage()) + ")";
    }
    if (count == 0) return;
    if (count > kNamed) names += " and " + std::to_string(count - kNamed) + " more";
    callbacks_.say("still waiting for " + names);
    report();
  });
}

void HostOpener::end_all() {
  ending_ = true;
  timer_.cancel();
  for (const auto& [index, host] : hosts_)
    if (host->state == Host::State::running) host->ssh.close_lease();
}

void HostOpener::end_unconnected() {
  ending_ = true;
  timer_.cancel();
  for (const auto& [index, host] : hosts_)
    if (host->state == Host::State::running && !callbacks_.is_connected(index))
      host->ssh.close_lease();
}

}  // namespace hvdrun
