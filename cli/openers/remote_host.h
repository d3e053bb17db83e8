// Another machine, opened by a shell there that becomes the host's guard. Its stdin is the lease,
// as the pipe of a local guard is: closing it, or the end of what carries it, ends everything
// there. How the shell is reached is the derived classes' matter. One thread.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <sys/types.h>

#include "cli/openers/remote_start.h"

namespace hvdrun {

class RemoteHost {
 public:
  struct Request {
    std::shared_ptr<const AgentImage> agent;
    std::string job;  // the frame for the guard
  };
  struct End {
    std::string why;     // empty: its guard has left as it should
    std::string advice;  // what the user can do about it; empty: nothing in particular
    bool worth_another_client = false;  // it ended before the shell, in what another ssh may know
    // The server hung up before it knew who calls, as sshd does when many call at once.
    bool worth_another_try = false;
    // Nobody answered who could have refused: a machine that still boots, a name that comes.
    bool not_there_yet = false;
  };
  struct Callbacks {
    std::function<void()> stage;                   // another one has begun
    std::function<void(const std::string&)> line;  // on stderr there, once the guard runs
    // On stdout there, likewise; empty and once: its end.
    std::function<void(std::string_view)> bytes;
    std::function<void(const End&)> ended;  // last and once, never from within a call
  };

  RemoteHost(Request request, Callbacks callbacks)
      : callbacks_(std::move(callbacks)), request_(std::move(request)) {}
  virtual ~RemoteHost() = default;
  RemoteHost(const RemoteHost&) = delete;
  RemoteHost& operator=(const RemoteHost&) = delete;

  virtual void start() = 0;
  // Bytes for the guard's stdin, once it runs. `done` when they are written; one at a time.
  virtual void send(std::string bytes, std::function<void()> done) = 0;
  // Everything on the host ends. May come at any time, and more than once.
  virtual void close_lease() = 0;
  // Ends what carries it, because the host does not answer any more.
  virtual void give_up() = 0;
  // The loop runs no more, and soon nothing below hvdrun does. Begins to end what would stay behind
  // on the host then. A descriptor that can be read when that is done; -1: it is.
  virtual int leave() { return -1; }
  // It has ended and will be destroyed once the loop has run: nothing waits any more.
  virtual void release() {}
  // The process on this machine that carries it, until it is reaped; -1: there is none.
  virtual pid_t client() const { return -1; }
  // For the user: "connecting".
  virtual const char* stage() const { return describe(remote_.stage()); }
  // The reason why it does not come up, or goes, as far as what carries it has said so; empty:
  // nothing.
  virtual std::string cause() const { return {}; }

  // The guard runs there.
  bool started() const { return remote_.stage() == RemoteStart::Stage::start; }

 protected:
  // `bytes` stay where they are until the host is gone.
  virtual void write(std::string_view bytes) = 0;

  bool shell_runs() const { return remote_.stage() != RemoteStart::Stage::connect; }
  void on_stdout(std::string_view bytes);
  void on_stdout_end();
  void on_stderr(std::string_view bytes);
  // Hears each line on stderr. False: the user need not see it.
  virtual bool hear(const std::string& /*line*/) { return true; }
  // The last words before the guard ran, one line; empty: nothing.
  std::string last_words() const;

  const Callbacks callbacks_;

 private:
  const Request request_;
  RemoteStart remote_;
  std::string line_;
  std::deque<std::string> words_;
  bool stdout_ended_ = false;
};

}  // namespace hvdrun
