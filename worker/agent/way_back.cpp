#include "worker/agent/way_back.h"

#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <sstream>
#include <unistd.h>
#include <utility>

#include <boost/asio/write.hpp>

#include "common/base/error.h"
#include "common/base/fault_text.h"
#include "common/base/limits.h"
#include "common/net/host_addresses.h"
#include "common/net/unix_stream.h"

namespace hvdrun {
namespace {

namespace asio = boost::asio;

// The host's own address, at which sshd was reached.
std::string address_behind_ssh() {
  const char* const connection = ::getenv("SSH_CONNECTION");  // NOLINT(concurrency-mt-unsafe)
  std::istringstream words(connection != nullptr ? connection : "");
  std::string client;
  std::string port;
  std::string server;
  words >> client >> port >> server;
  // Behind a translation of addresses it may be none of this host's, and at a tunnel's end one that
  // no other host reaches.
  const bool is_loopback = server.starts_with("127.") || server == "::1";
  if (!is_loopback && !interface_of(server).empty()) return server;
  const auto all = host_addresses();
  return all.empty() ? "127.0.0.1" : all.front().address;
}

// An address's fate, in words.
std::string fate(const std::string& address, std::error_code ec) {
  if (ec == Errc::auth_failed)
    return "what answers at " + address + " does not hold this job's key";
  return address + ": " + fault_text(ec);
}

constexpr std::size_t kMostNamed = 8;

}  // namespace

WayBack::WayBack(asio::io_context& io, const Bootstrap& bootstrap, std::function<void()> on_lost)
    : io_(io), bootstrap_(bootstrap), on_lost_(std::move(on_lost)), stdout_(io) {}

void WayBack::open(Role role, OnStream on_stream) {
  const Endpoint& endpoint = role == Role::agent ? bootstrap_.control : bootstrap_.output;
  if (endpoint.addresses.empty())
    return on_stream({}, make_unix_stream(io_, UniqueFd(static_cast<int>(endpoint.fd))));
  if (!tls_) tls_ = make_tls_context({bootstrap_.job_id, bootstrap_.secret});
  failed_.clear();
  if (relay_) return open_relayed(role, std::move(on_stream));
  const std::chrono::milliseconds limit(bootstrap_.dial_ms);
  async_tls_connect(
      io_, tls_, endpoint.addresses, bootstrap_.relay ? limit : limits::kHandshakeTimeout,
      [this, role, on_stream = std::move(on_stream)](std::error_code ec,
                                                     std::unique_ptr<ByteStream> stream) {
        if (ec && bootstrap_.relay) {
          tell_of_strangers();
          return open_relayed(role, on_stream);
        }
        // Another job may have the port at an address that this host has, too: no trouble.
        if (!ec && bootstrap_.verbose) tell_of_strangers();
        on_stream(ec, std::move(stream));
      },
      [this](const std::string& address, std::error_code ec) {
        failed_.emplace_back(address, ec);
      });
}

void WayBack::tell_of_strangers() const {
  for (const auto& [address, ec] : failed_)
    if (ec == Errc::auth_failed)
      std::fprintf(stderr, "hvd-agent on %s: %s: passed over\n", bootstrap_.host_name.c_str(),
                   fate(address, ec).c_str());
}

std::string WayBack::why_not(std::error_code ec) const {
  if (failed_.empty()) return relay_ ? "through ssh: " + fault_text(ec) : fault_text(ec);
  std::string text;
  for (std::size_t i = 0; i < failed_.size() && i < kMostNamed; ++i)
    text += (i == 0 ? "" : "; ") + fate(failed_[i].first, failed_[i].second);
  if (failed_.size() > kMostNamed)
    text += "; and " + std::to_string(failed_.size() - kMostNamed) + " addresses more";
  if (relay_) text += "; through ssh: " + fault_text(ec);
  return text;
}

void WayBack::open_relayed(Role role, OnStream on_stream) {
  if (!relay_) start_relay();
  const auto stream = role == Role::agent ? RelayStream::control : RelayStream::output;
  async_tls_connect_over(io_, tls_, relay_->open(stream), limits::kHandshakeTimeout,
                         std::move(on_stream));
}

// Through the guard's stdin and stdout, which are the ssh channel. Nobody else writes there.
void WayBack::start_relay() {
  stdout_.assign(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3));
  writing_ = kRelayLine;
  Relay::Callbacks callbacks;
  callbacks.write = [this](const std::string& bytes, std::function<void()> done) {
    writing_ += bytes;
    asio::async_write(stdout_, asio::buffer(std::as_const(writing_)),
                      [this, done = std::move(done)](const auto& ec, std::size_t) {
                        if (ec) return on_lost_();
                        writing_.clear();
                        done();
                      });
  };
  callbacks.on_fault = [this](std::error_code) { on_lost_(); };
  relay_ = std::make_unique<Relay>(io_, std::move(callbacks));
}

void WayBack::feed(std::string_view bytes) {
  if (relay_) relay_->feed(bytes);
}

std::string WayBack::own_address(const std::string& local_ip) const {
  return relay_ ? address_behind_ssh() : local_ip;
}

}  // namespace hvdrun
