#include "cli/openers/ssh/ssh_agent.h"

#include <sys/un.h>
#include <utility>

#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>

#include "cli/openers/ssh/ssh_wire.h"
#include "common/base/limits.h"

namespace hvdrun {
namespace {

namespace asio = boost::asio;

// draft-miller-ssh-agent, section 5.1
constexpr char kListKeys = 11;
constexpr char kKeys = 12;
constexpr char kSign = 13;
constexpr char kSignature = 14;

}  // namespace

std::string agent_list_request() { return {kListKeys}; }

std::string agent_sign_request(std::string_view key, std::string_view data) {
  std::string request{kSign};
  put_ssh_string(request, key);
  put_ssh_string(request, data);
  put_ssh_number(request, 0);  // no flags
  return request;
}

std::optional<std::vector<std::string>> parse_agent_keys(std::string_view answer) {
  if (answer.empty() || answer.front() != kKeys) return std::nullopt;
  SshReader reader(answer.substr(1));
  std::vector<std::string> keys;
  for (std::uint32_t left = reader.number(); left > 0 && reader.ok(); --left) {
    keys.emplace_back(reader.string());
    reader.string();  // a comment
  }
  if (!reader.ok()) return std::nullopt;
  return keys;
}

std::optional<std::string> parse_agent_signature(std::string_view answer) {
  if (answer.empty() || answer.front() != kSignature) return std::nullopt;
  SshReader outer(answer.substr(1));
  SshReader inner(outer.string());
  inner.string();  // its kind
  std::string signature(inner.string());
  if (!outer.ok() || !inner.ok() || signature.empty()) return std::nullopt;
  return signature;
}

SshAgent::SshAgent(asio::io_context& io, std::string path) : socket_(io), path_(std::move(path)) {}

void SshAgent::list(std::function<void(std::optional<std::vector<std::string>>)> handler) {
  ask(agent_list_request(), [handler = std::move(handler)](std::string_view answer) {
    handler(parse_agent_keys(answer));
  });
}

void SshAgent::sign(std::string_view key, std::string_view data,
                    std::function<void(std::optional<std::string>)> handler) {
  ask(agent_sign_request(key, data), [handler = std::move(handler)](std::string_view answer) {
    handler(parse_agent_signature(answer));
  });
}

void SshAgent::ask(const std::string& request, OnAnswer handler) {
  request_.clear();
  put_ssh_string(request_, request);
  handler_ = std::move(handler);
  if (connected_) return send();
  if (path_.size() >= sizeof(sockaddr_un::sun_path)) {
    // The constructor of an endpoint would throw.
    asio::post(socket_.get_executor(), [this] {
      if (!stopped_) std::exchange(handler_, {})({});
    });
    return;
  }
  socket_.async_connect({path_}, [this](const auto& ec) {
    if (stopped_) return;
    if (ec) return std::exchange(handler_, {})({});
    connected_ = true;
    send();
  });
}

void SshAgent::stop() {
  stopped_ = true;
  boost::system::error_code ignored;
  socket_.close(ignored);
}

void SshAgent::send() {
  asio::async_write(socket_, asio::buffer(request_), [this](const auto& ec, std::size_t) {
    if (stopped_) return;
    if (ec) return std::exchange(handler_, {})({});
    read_answer();
  });
}

void SshAgent::read_answer() {
  asio::async_read(socket_, asio::buffer(size_), [this](const auto& ec, std::size_t) {
    if (stopped_) return;
    const std::uint32_t size =
        SshReader({reinterpret_cast<const char*>(size_), sizeof(size_)}).number();
    if (ec || size > limits::kMaxAgentAnswer) return std::exchange(handler_, {})({});
    answer_.resize(size);
    asio::async_read(socket_, asio::buffer(answer_), [this](const auto& failed, std::size_t) {
      if (stopped_) return;
      std::exchange(handler_, {})(failed ? std::string_view() : std::string_view(answer_));
    });
  });
}

}  // namespace hvdrun
