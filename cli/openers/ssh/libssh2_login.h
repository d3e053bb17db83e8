// Logs in over a libssh2 session with keys: those of the agent, whose answers are waited for
// without blocking, and files. One thread.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <libssh2.h>

#include "cli/openers/ssh/ssh_agent.h"
#include "cli/openers/ssh/ssh_choice.h"

namespace hvdrun {

class Libssh2Login {
 public:
  // `go_on`: the agent has answered. The target must outlive this.
  Libssh2Login(boost::asio::io_context& io, const Libssh2Target& target,
               std::function<void()> go_on);
  Libssh2Login(const Libssh2Login&) = delete;
  Libssh2Login& operator=(const Libssh2Login&) = delete;

  // Finds the keys; `done` with false when there is none. May call it at once.
  void find_keys(std::function<void(bool)> done);
  // One key after the other until one is taken: 0, or LIBSSH2_ERROR_EAGAIN, to be called again, or
  // the last error.
  int step(LIBSSH2_SESSION* session);
  // Logged in, or given up; nobody is called any more. To be destroyed only when the loop has run.
  void stop();
  // It is the agent, not the server, that step() waits for.
  bool asks_agent() const { return asking_; }

 private:
  // The public half of an agent's key, or a file.
  struct Identity {
    std::string agent_key;
    std::string file;
  };

  static int sign(LIBSSH2_SESSION* session, unsigned char** signature, std::size_t* size,
                  const unsigned char* data, std::size_t data_size, void** self);
  int sign(unsigned char** signature, std::size_t* size, std::string_view data);

  const Libssh2Target& target_;
  const std::function<void()> go_on_;
  std::optional<SshAgent> agent_;
  std::vector<Identity> identities_;
  std::size_t next_ = 0;
  bool asking_ = false;  // for a signature
  bool refused_ = false;
  std::string signature_;
  void* self_ = this;  // as libssh2 hands it to sign()
};

}  // namespace hvdrun
