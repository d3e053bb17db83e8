// A host opened by libssh2: no process of ours, and no call that blocks. Its channel's input is the
// lease; when this process dies, the socket closes and sshd ends what it has started. Every step
// until the shell answers has a deadline.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <libssh2.h>

#include "cli/hosts/name_resolver.h"
#include "cli/openers/remote_host.h"
#include "cli/openers/ssh/libssh2_login.h"
#include "cli/openers/ssh/ssh_choice.h"
#include "cli/openers/ssh/tcp_dialer.h"

namespace hvdrun {

class Libssh2Host : public RemoteHost {
 public:
  // `command` for the user's shell there; `limit` of each step, but of connecting where the target
  // has its own. The resolver must outlive this.
  Libssh2Host(boost::asio::io_context& io, NameResolver& resolver, Libssh2Target target,
              std::string command, std::chrono::milliseconds limit, Request request,
              Callbacks callbacks);
  ~Libssh2Host() override;

  void start() override;
  void send(std::string bytes, std::function<void()> done) override;
  void close_lease() override;
  void give_up() override;
  const char* stage() const override;

 protected:
  void write(std::string_view bytes) override;

 private:
  enum class Step { resolve, connect, agree, authenticate, open, exec, talk, close, over };
  struct SessionCloser {
    void operator()(LIBSSH2_SESSION* session) const { libssh2_session_free(session); }
  };

  void enter(Step step);
  void wait_for(std::chrono::milliseconds time);
  void resolve();
  void connect(NameResolver::Endpoints endpoints);
  void on_connected();
  void on_deadline(std::chrono::milliseconds time);
  bool has_greeted() const;
  // Goes on with the present step until it must wait.
  void proceed();
  void wait_for_socket();
  bool step_done(int rc);
  void check_host_key();
  int talk();
  int read_stream(int stream);
  int write_queue();
  int close_channel();
  void on_closed();
  void fail_to_agree(int rc);
  void fail(std::string why, bool worth_another_client = false, std::string advice = "");
  void fail_for_now(std::string why);
  void end(End end);
  std::string session_error() const;

  boost::asio::io_context& io_;
  NameResolver& resolver_;
  const Libssh2Target target_;
  const std::string command_;
  const std::chrono::milliseconds limit_;
  boost::asio::steady_timer deadline_;
  boost::asio::ip::tcp::socket socket_;
  TcpDialer dialer_;
  std::unique_ptr<Libssh2Login> login_;
  std::unique_ptr<LIBSSH2_SESSION, SessionCloser> session_;
  LIBSSH2_CHANNEL* channel_ = nullptr;  // the session's
  Step step_ = Step::resolve;
  bool is_patient_ = false;  // with a server that has greeted, the longer time is running
  const char* stage_at_end_ = "";
  // A look-up cannot be called off, and may outlive this.
  const std::shared_ptr<Libssh2Host*> self_ = std::make_shared<Libssh2Host*>(this);
  bool waiting_to_read_ = false;
  bool waiting_to_write_ = false;

  // A call of libssh2 that has a packet half written must be called again before anything else is.
  enum class HalfDone { nothing, writing, reading_out, reading_err } half_done_ = HalfDone::nothing;
  std::vector<std::string_view> to_write_;
  std::string sending_;
  std::function<void()> on_sent_;
  bool input_ended_ = false;
  bool eof_sent_ = false;
};

}  // namespace hvdrun
