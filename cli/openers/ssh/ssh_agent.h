// Asks an ssh agent, which keeps private keys to itself, for its keys and for signatures; never
// blocks. One question at a time.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>

namespace hvdrun {

// Requests to an agent and its answers, without the count in front. Sans-I/O.
std::string agent_list_request();
std::string agent_sign_request(std::string_view key, std::string_view data);
// The public keys; nothing: this is no answer to that.
std::optional<std::vector<std::string>> parse_agent_keys(std::string_view answer);
// The bare signature, as it stands behind the name of its kind.
std::optional<std::string> parse_agent_signature(std::string_view answer);

class SshAgent {
 public:
  SshAgent(boost::asio::io_context& io, std::string path);

  void list(std::function<void(std::optional<std::vector<std::string>>)> handler);
  void sign(std::string_view key, std::string_view data,
            std::function<void(std::optional<std::string>)> handler);
  // Nobody is told anything any more. To be destroyed only when the loop has run since.
  void stop();

 private:
  using OnAnswer = std::function<void(std::string_view)>;  // empty: there is none
  void ask(const std::string& request, OnAnswer handler);
  void send();
  void read_answer();

  boost::asio::local::stream_protocol::socket socket_;
  const std::string path_;
  bool connected_ = false;
  bool stopped_ = false;
  std::string request_;
  std::string answer_;
  unsigned char size_[4];
  OnAnswer handler_;
};

}  // namespace hvdrun
