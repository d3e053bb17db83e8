#include "cli/run/host_opener.h"

#include <algorithm>
#include <poll.h>
#include <utility>

#include "cli/openers/srun/srun_command.h"
#include "cli/openers/srun/srun_host.h"
#include "cli/openers/ssh/libssh2_host.h"
#include "cli/openers/ssh/ssh_host.h"
#include "cli/openers/ssh/ssh_surroundings.h"
#include "cli/openers/ssh/ssh_words.h"
#include "cli/text/log.h"
#include "common/base/fault_text.h"
#include "common/base/limits.h"

namespace hvdrun {
namespace {

// So many at once: each needs a core for a while to agree on keys.
constexpr std::ptrdiff_t kAtOnce = 32;
constexpr std::chrono::seconds kReport{3};
constexpr std::size_t kNamed = 8;
// One try of a host that may not be there yet. A machine that boots drops what comes, and the
// kernel would repeat it later each time.
constexpr std::chrono::milliseconds kOneTry{10'000};
// An ssh configuration may run commands (Match exec) and look names up.
constexpr std::chrono::seconds kQueryLimit{10};

}  // namespace

HostOpener::HostOpener(boost::asio::io_context& io, SshOptions options,
                       std::chrono::milliseconds limit, RelayPorts ports,
                       std::uint64_t descriptor_limit, Callbacks callbacks)
    : io_(io),
      options_(std::move(options)),
      limit_(limit),
      relay_ports_(ports),
      descriptor_limit_(descriptor_limit),
      callbacks_(std::move(callbacks)),
      timer_(io),
      resolver_(io) {}

const char* HostOpener::stage(const Host& host) const {
  if (!host.tries.empty()) return host.tries.back()->stage();
  return options_.carrier == HostCarrier::srun ? "waiting for its turn"
                                               : "reading its ssh configuration";
}

void HostOpener::add(std::uint32_t host, const std::string& name, const HostLogin& login,
                     std::shared_ptr<const AgentImage> agent, std::string job) {
  auto entry = std::make_unique<Host>(host, options_.waits_for_hosts);
  entry->name = name;
  entry->options = with_login(options_, login);
  entry->script = remote_script(*agent);
  entry->request = {std::move(agent), std::move(job)};
  waiting_.push_back(entry.get());
  hosts_[host] = std::move(entry);
}

void HostOpener::add_later(std::uint32_t host, const std::string& name, const HostLogin& login,
                           bool here, std::shared_ptr<const AgentImage> agent, std::string job) {
  add(host, name, login, std::move(agent), std::move(job));
  waiting_.pop_back();
  hosts_[host]->here = here;
  hosts_[host]->state = Host::State::ended;
}

void HostOpener::open() {
  if (hosts_.empty()) return;
  open_next();
  report();
}

void HostOpener::open_next() {
  auto opening = std::count_if(hosts_.begin(), hosts_.end(),
                               [](const auto& entry) { return entry.second->opening(); });
  for (; opening < kAtOnce && !waiting_.empty() && !ending_; ++opening) {
    Host& host = *waiting_.front();
    waiting_.pop_front();
    open(host);
  }
  tell_if_all_tried();
}

void HostOpener::open(Host& host) {
  if (host.here) return open_here(host);
  if (options_.carrier == HostCarrier::srun) return open_by_srun(host);
  const std::string why = client_reason();
  // The time that one try of it may take is known from its configuration, which a program in place
  // of ssh may not have.
  const bool is_asked =
      why.empty() || (is_waited_for(host) && options_.program == std::vector<std::string>{"ssh"});
  is_asked ? ask(host) : open_by_client(host, why);
}

const char* HostOpener::client_reason() const {
  if (options_.carrier == HostCarrier::client) return "--ssh names it";
  return options_.arguments.empty() ? "" : "--ssh-args are its options";
}

void HostOpener::ask(Host& host) {
  host.state = Host::State::asking;
  if (!no_client_) {
    host.query = std::make_unique<ClientOutput>(io_);
    // The client will say again, when it connects, what is wrong with the configuration.
    const std::error_code ec = host.query->start(
        {.argv = ssh_query_command(host.options, host.name)}, {kQueryLimit, limits::kMaxSshConfig},
        [this, &host](ClientOutput::Answer answer) {
          choose(host, answer.fault.empty() ? std::optional(std::move(answer.text)) : std::nullopt);
        });
    if (!ec) return;
    // Out of processes, say: which the client would meet as well.
    if (ec != std::errc::no_such_file_or_directory)
      return open_by_client(host, "ssh -G: " + fault_text(ec));
    no_client_ = true;
    log_line(LogLevel::debug, "there is no ssh program, so ~/.ssh/config is not read");
  }
  if (const std::string why = client_reason(); !why.empty()) return open_by_client(host, why);
  open_with(host, default_ssh_config(host.name, host.options, surroundings()));
}

void HostOpener::choose(Host& host, const std::optional<std::string>& config) {
  if (ending_) return;
  const std::string why = client_reason();
  if (!config) return open_by_client(host, why.empty() ? "ssh -G failed" : why);
  const SshConfig known(*config);
  host.client_limit.reset();
  if (is_waited_for(host) && !ssh_connect_timeout(known))
    host.client_limit = std::min(kOneTry, limit_);
  why.empty() ? open_with(host, known) : open_by_client(host, why);
}

void HostOpener::open_with(Host& host, const SshConfig& config) {
  SshChoice choice = choose_ssh(config, surroundings());
  if (choice.not_libssh2.empty()) return open_by_libssh2(host, std::move(choice.target));
  if (options_.carrier == HostCarrier::automatic && !no_client_)
    return open_by_client(host, choice.not_libssh2);
  RemoteHost::End end;
  end.why = "libssh2 cannot open it: " + choice.not_libssh2;
  if (host.turn > 0) return reopen_later(host, end);
  host.state = Host::State::ended;
  refuse(host, stage(host), end);
  open_next();
}

void HostOpener::open_by_libssh2(Host& host, Libssh2Target target) {
  if (!target.connect_timeout && is_waited_for(host))
    target.connect_timeout = std::min(kOneTry, limit_);
  log_line(LogLevel::debug, host.name + ": opened by libssh2, as " + target.user + "@" +
                                target.host + " port " + std::to_string(target.port));
  host.by_libssh2 = true;
  start(host, std::make_unique<Libssh2Host>(io_, resolver_, std::move(target), host.script, limit_,
                                            host.request, callbacks_of(host)));
}

void HostOpener::open_by_client(Host& host, const std::string& why) {
  log_line(LogLevel::debug,
           host.name + ": opened by " + options_.program.front() + ", because " + why);
  host.by_libssh2 = false;
  start(host, std::make_unique<SshHost>(
                  io_, ssh_command(host.options, host.name, host.client_limit, host.script),
                  !is_template(options_), host.request, callbacks_of(host)));
}

void HostOpener::open_by_srun(Host& host) {
  log_line(LogLevel::debug, host.name + ": opened by srun, as a job step");
  start(host, std::make_unique<SrunHost>(io_, host.name, host.options.component, host.script,
                                         descriptor_limit_, host.request, callbacks_of(host)));
}

// A guard of its own can only be forked before there is a loop (LocalTransport).
void HostOpener::open_here(Host& host) {
  log_line(LogLevel::debug, host.name + ": opened on this machine");
  host.by_libssh2 = false;
  start(host, std::make_unique<SshHost>(io_, std::vector<std::string>{"/bin/sh", "-c", host.script},
                                        false, host.request, callbacks_of(host)));
}

void HostOpener::start(Host& host, std::unique_ptr<RemoteHost> way) {
  host.tries.push_back(std::move(way));
  host.state = Host::State::running;
  host.tries.back()->start();
  if (host.turn > 0) limit(host);
}

RemoteHost::Callbacks HostOpener::callbacks_of(Host& host) {
  HostRelay::Callbacks relay;
  relay.write = [&host](std::string bytes, std::function<void()> done) {
    host.tries.back()->send(std::move(bytes), std::move(done));
  };
  relay.on_begin = [this, &host] { callbacks_.relayed(host.index); };
  relay.on_fault = [this, &host](std::error_code ec) {
    callbacks_.say(host.name + ": what its agent says through " + carrier_of(options_) +
                   " makes no sense: " + ec.message());
    host.tries.back()->close_lease();
  };
  host.relay = std::make_unique<HostRelay>(io_, relay_ports_, std::move(relay));
  return {[this, &host] {
            host.absence.reset();  // its shell has answered
            open_next();
          },
          [this, &host](const std::string& line) {
            if (!host.superseded) callbacks_.say(host.name + ": " + line);
          },
          [&host](std::string_view bytes) {
            if (host.superseded) return;
            bytes.empty() ? host.relay->end() : host.relay->feed(bytes);
          },
          [this, &host](const RemoteHost::End& end) { on_ended(host, end); }};
}

void HostOpener::on_ended(Host& host, const RemoteHost::End& end) {
  if (host.superseded) return forget(host);
  const bool had_started = host.tries.back()->started();
  if (!ending_ && host.turn == 0)
    if (const auto again = host.retry.failed({end.worth_another_try, end.not_there_yet}))
      return try_later(host, end, *again);
  const bool again = end.worth_another_client && !ending_ && !no_client_ && !host.here &&
                     options_.carrier == HostCarrier::automatic;
  if (again)
    return open_by_client(host,
                          "libssh2 failed while " + std::string(stage(host)) + ": " + end.why);
  if (host.turn > 0 && !had_started && !ending_) return reopen_later(host, end);
  host.state = Host::State::ended;
  if (had_started) {
    callbacks_.ended(host.index, end.why.empty() ? std::nullopt : std::optional(end.why));
    return;
  }
  refuse(host, stage(host), end);
  open_next();
  callbacks_.ended(host.index, std::nullopt);
}

void HostOpener::refuse(Host& host, const std::string& at, const RemoteHost::End& end) {
  callbacks_.gone(host.index);
  if (ending_) return;  // as it was told to
  Refusal refusal;
  refusal.host = host.name;
  refusal.why = at + ": " + end.why;
  refusal.lines.push_back("host " + host.name + " (" + at + "): " + end.why);
  const std::string by_hand = options_.carrier == HostCarrier::srun
                                  ? srun_by_hand(host.name, host.options.component)
                                  : ssh_by_hand(host.options, host.name);
  std::string advice = end.advice.empty() ? "to see it by hand: " + by_hand : end.advice;
  if (!host.by_libssh2 && is_unknown_host_key(end.why))
    advice += "; or trust new hosts with --accept-new-host-keys";
  refusal.lines.push_back("  " + advice);
  refusals_.push_back(std::move(refusal));
}

// The user wants to know of all hosts that cannot be used, not of one after the other. One that is
// not there yet was tried: it would only put off what is known.
void HostOpener::tell_if_all_tried() {
  if (refusals_.empty() || ending_) return;
  if (std::any_of(hosts_.begin(), hosts_.end(), [](const auto& entry) {
        const Host& host = *entry.second;
        return !host.absence && (host.opening() || host.state == Host::State::waiting);
      }))
    return;
  callbacks_.failed(std::exchange(refusals_, {}));
}

std::vector<std::string> HostOpener::not_opened() {
  for (const auto& [index, host] : hosts_) {
    if (host->state == Host::State::ended || callbacks_.is_connected(index)) continue;
    const std::string words = cause(index);
    RemoteHost::End end;
    end.why = "no answer in time" + (words.empty() ? "" : ": " + words);
    if (host->absence) end.why = host->absence->why + " (tried until the end)";
    refuse(*host, host->absence ? host->absence->stage : stage(*host), end);
  }
  std::vector<std::string> lines;
  for (const Refusal& refusal : std::exchange(refusals_, {}))
    lines.insert(lines.end(), refusal.lines.begin(), refusal.lines.end());
  return lines;
}

void HostOpener::report() {
  timer_.expires_after(kReport);
  timer_.async_wait([this](const auto& ec) {
    if (ec || ending_) return;
    std::string names;
    std::size_t count = 0;
    bool any_absent = false;
    for (const auto& [index, host] : hosts_) {
      // One that is not there yet has been named.
      any_absent |= host->state != Host::State::ended && host->absence;
      if (host->state == Host::State::ended || host->absence || callbacks_.is_connected(index))
        continue;
      if (++count <= kNamed)
        names += (count > 1 ? ", " : "") + host->name + " (" + stage(*host) + ")";
    }
    if (count == 0) return any_absent ? report() : void();
    if (count > kNamed) names += " and " + std::to_string(count - kNamed) + " more";
    callbacks_.say("still waiting for " + names);
    report();
  });
}

void HostOpener::end_all() {
  ending_ = true;
  timer_.cancel();
  end_unopened();
  for (const auto& [index, host] : hosts_)
    if (host->state == Host::State::running) host->tries.back()->close_lease();
}

void HostOpener::end_unconnected() {
  ending_ = true;
  timer_.cancel();
  end_unopened();
  for (const auto& [index, host] : hosts_)
    if (host->state == Host::State::running && !callbacks_.is_connected(index))
      host->tries.back()->close_lease();
}

// Nothing was begun for these that would tell its end.
void HostOpener::end_unopened() {
  for (const auto& [index, host] : hosts_) {
    if (host->state == Host::State::running || host->state == Host::State::ended) continue;
    host->state = Host::State::ended;
    if (host->pause) host->pause->cancel();
    if (host->query) host->query->cancel();
    callbacks_.gone(index);
  }
  waiting_.clear();
}

const SshSurroundings& HostOpener::surroundings() {
  if (!here_) here_ = ssh_surroundings();
  return *here_;
}

void HostOpener::leave(std::chrono::milliseconds limit) {
  std::vector<pollfd> waits;
  for (const auto& [index, host] : hosts_) {
    const int fd = host->state == Host::State::running ? host->tries.back()->leave() : -1;
    if (fd >= 0) waits.push_back({fd, POLLIN, 0});
  }
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!waits.empty()) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0 ||
        ::poll(waits.data(), waits.size(), static_cast<int>(left.count())) == 0)
      return;
    std::erase_if(waits, [](const pollfd& wait) { return wait.revents != 0; });
  }
}

std::vector<pid_t> HostOpener::clients() const {
  std::vector<pid_t> found;
  for (const auto& [index, host] : hosts_) {
    if (host->query && host->query->pid() > 0) found.push_back(host->query->pid());
    for (const auto& way : host->tries)
      if (way->client() > 0) found.push_back(way->client());
  }
  for (const auto& old : superseded_)
    for (const auto& way : old->tries)
      if (way->client() > 0) found.push_back(way->client());
  return found;
}

std::string HostOpener::cause(std::uint32_t index) const {
  const auto found = hosts_.find(index);
  if (found == hosts_.end() || found->second->tries.empty()) return {};
  return found->second->tries.back()->cause();
}

void HostOpener::give_up(std::uint32_t index) {
  Host& host = *hosts_.at(index);
  if (host.state == Host::State::running) host.tries.back()->give_up();
}

}  // namespace hvdrun
