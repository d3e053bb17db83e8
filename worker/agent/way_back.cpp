#include "worker/agent/way_back.h"

#include <cstdlib>
#include <fcntl.h>
#include <sstream>
#include <unistd.h>
#include <utility>

#include <boost/asio/write.hpp>

#include "common/host_addresses.h"
#include "common/limits.h"
#include "common/unix_stream.h"

namespace hvdrun {
namespace {

namespace asio = boost::asio;

// Of the host, where sshd was reached.
std::string address_behind_ssh() {
  const char* const connection = ::getenv("SSH_CONNECTION");  // NOLINT(concurrency-mt-unsafe)
  std::istringstream words(connection != nullptr ? connection : "");
  std::string client;
  std::string port;
  std::string server;
  words >> client >> port >> server;
  // Behind a translation of addresses it may be none of this host's.
  if (!interface_of(server).empty()) return server;
  const auto all = host_addresses();
  return all.empty() ? "127.0.0.1" : all.front().address;
}

}  // namespace

WayBack::WayBack(asio::io_context& io, const Bootstrap& bootstrap, std::function<void()> on_lost)
    : io_(io), bootstrap_(bootstrap), on_lost_(std::move(on_lost)), stdout_(io) {}

void WayBack::open(Role role, OnStream on_stream) {
  const Endpoint& endpoint = role == Role::agent ? bootstrap_.control : bootstrap_.output;
  if (endpoint.addresses.empty())
    return on_stream({}, make_unix_stream(io_, UniqueFd(static_cast<int>(endpoint.fd))));
  if (!tls_) tls_ = make_tls_context({bootstrap_.job_id, bootstrap_.secret});
  if (relay_) return open_relayed(role, std::move(on_stream));
  const std::chrono::milliseconds limit(bootstrap_.dial_ms);
  async_tls_connect(io_, tls_, endpoint.addresses,
                    bootstrap_.relay ? limit : limits::kHandshakeTimeout,
                    [this, role, on_stream = std::move(on_stream)](
                        std::error_code ec, std::unique_ptr<ByteStream> stream) {
                      if (ec && bootstrap_.relay) return open_relayed(role, on_stream);
                      on_stream(ec, std::move(stream));
                    });
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
