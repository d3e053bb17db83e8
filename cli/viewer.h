// Shows the output of all ranks: one connection from every agent, two consoles. A rank gets credit
// for more output once what it sent has been written.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include <boost/asio/io_context.hpp>

#include "cli/console.h"
#include "cli/output_formatter.h"
#include "common/frame_channel.h"
#include "common/messages.h"
#include "common/tls_listener.h"
#include "common/unique_fd.h"

namespace hvdrun {

class Viewer {
 public:
  // `on_broken`: nobody reads stdout or stderr any more.
  Viewer(boost::asio::io_context& io, std::string job_id, std::function<void(int)> on_broken);

  // An agent's connection is expected, until it has come and ended.
  void expect(std::uint32_t host) { hosts_[host]; }
  void forget(std::uint32_t host);
  // Nobody is left on the host who could still connect; a connection that is there ends by itself.
  void forget_unless_connected(std::uint32_t host);
  // It came as an inherited socket, or will come over TCP with TLS.
  void attach(std::uint32_t host, UniqueFd fd);
  void listen(UniqueFd listener, const std::string& secret);

  // Every expected connection has ended and everything is written.
  bool all_shown() const;
  // Called whenever all_shown() may have become true.
  std::function<void()> on_all_closed;

  // Called with everything that a rank wrote, before it is shown.
  std::function<void(const Output&)> on_output;

  // A line of hvdrun's own, on stderr.
  void say(const std::string& text);
  bool stderr_is_terminal() const { return err_.is_terminal(); }

 private:
  using Channel = std::shared_ptr<FrameChannel>;

  // `host`: the one that this connection must be for; none when its hello tells.
  void greet(const Channel& channel, std::optional<std::uint32_t> host);
  void on_frame(std::uint32_t host, const Frame& frame);
  void show(std::uint32_t host, const Output& message);
  void written();

  boost::asio::io_context& io_;
  std::string job_id_;
  Console out_;
  Console err_;
  OutputFormatter out_formatter_;
  OutputFormatter err_formatter_;
  std::optional<TlsListener> listener_;
  std::map<std::uint32_t, Channel> hosts_;  // expected; no channel before its hello
};

}  // namespace hvdrun
