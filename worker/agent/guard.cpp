#include "worker/agent/guard.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <exception>
#include <fcntl.h>
#include <optional>
#include <poll.h>
#include <signal.h>
#include <stdexcept>
#include <string>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

#include <string.h>
#include <time.h>

#include "common/base/fault_text.h"
#include "common/base/unique_fd.h"
#include "common/process/kernel_check.h"
#include "common/process/process_tree.h"
#include "common/process/stand_in.h"
#include "common/wire/frame.h"
#include "common/wire/messages.h"
#include "common/wire/relay_mux.h"
#include "worker/agent/agent.h"
#include "worker/agent/agent_watch.h"
#include "worker/agent/isolation.h"
#include "worker/agent/kept_agent.h"

namespace hvdrun {
namespace {

// Until it is told its job: who tells it may be sending this program to a hundred other hosts.
constexpr std::chrono::seconds kJobPatience{120};

// The first frame on the lease, which the driver writes as soon as it gets to it. Who starts this
// program by hand, at a terminal or without input, is answered at once.
std::optional<Bootstrap> read_bootstrap(int lease) {
  if (::isatty(lease) != 0) return std::nullopt;
  const auto deadline = std::chrono::steady_clock::now() + kJobPatience;
  FrameDecoder decoder;
  char buffer[4096];
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    pollfd wait{lease, POLLIN, 0};
    if (::poll(&wait, 1, static_cast<int>(std::max<std::int64_t>(0, left.count()))) <= 0)
      return std::nullopt;
    const ssize_t got = ::read(lease, buffer, sizeof buffer);
    if (got <= 0) return std::nullopt;
    decoder.feed(std::string_view(buffer, static_cast<std::size_t>(got)));
    std::error_code ec;
    const auto frame = decoder.next(ec);
    if (ec) return std::nullopt;
    if (!frame) continue;
    Bootstrap bootstrap;
    if (frame->type != MessageType::bootstrap || decode(frame->payload, bootstrap))
      return std::nullopt;
    return bootstrap;
  }
}

int say_fault(const std::string& who) {
  const std::error_code ec(errno, std::system_category());
  std::fprintf(stderr, "%s: %s\n", who.c_str(), fault_text(ec).c_str());
  return 1;
}

[[noreturn]] void run_agent(Bootstrap bootstrap, UniqueFd guard_pipe, IsolationNet& net) {
  become_subreaper();
  // Slurm's proctrack/pgid kills the guard with its whole process group. It leaves the one that
  // ends the ranks, which have groups of their own too.
  ::setpgid(0, 0);
  ::prctl(PR_SET_NAME, "hvd-agent", 0, 0, 0);
  int code = 1;
  try {
    net.enter();
    boost::asio::io_context io(1);
    Agent agent(io, std::move(bootstrap), std::move(guard_pipe));
    code = agent.run();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "hvd-agent: %s\n", fault_text(e).c_str());
    kill_descendants_and_wait();
  }
  ::_exit(code);
}

// Passes, a millisecond apart, in which the agent may end by itself.
constexpr int kAgentEnds = 500;

// All that a relay's credits let the driver send, with its headers.
constexpr std::size_t kMaxWaiting = 2 * kRelayStreams * RelayMux::kCredit;

// Slurm and Kubernetes send SIGTERM to all that a host is to lose soon. What it means is the
// agent's to know, and a guard that ended would end all at once.
volatile pid_t the_agent = 0;

extern "C" void hand_to_agent(int signal) {
  const int saved = errno;
  ::kill(the_agent, signal);
  errno = saved;
}

void hand_terms_to(pid_t agent) {
  the_agent = agent;
  struct sigaction action {};
  action.sa_handler = hand_to_agent;
  ::sigaction(SIGTERM, &action, nullptr);
}

// Until the agent ends or the lease does, or the process that stands in for this one. What comes on
// the lease after the bootstrap is a relay's, and goes to the agent. It is always read, because the
// end of the lease may stand behind it, and an agent may be stopped.
void wait_for_end(int lease, int agent_pidfd, int to_agent, AgentWatch& watch, AgentTouch& touch,
                  int stand_in) {
  const auto time = [] { return std::chrono::steady_clock::now(); };
  std::string waiting;
  for (;;) {
    pollfd waits[5] = {{lease, POLLIN, 0},
                       {agent_pidfd, POLLIN, 0},
                       {waiting.empty() ? -1 : to_agent, POLLOUT, 0},
                       {watch.fd(), POLLIN, 0},
                       {stand_in, POLLIN, 0}};
    const int until_look = watch.timeout();
    const int until_touch = touch.timeout(time());
    // The sooner one; -1 is never.
    const auto sooner =
        std::min(static_cast<unsigned>(until_look), static_cast<unsigned>(until_touch));
    if (::poll(waits, 5, static_cast<int>(sooner)) < 0) {
      if (errno == EINTR) continue;
      return;
    }
    if (waits[1].revents != 0 || waits[4].revents != 0 || !watch.look()) return;
    touch.tick(time());
    if (waits[0].revents != 0) {
      char buffer[16384];
      const ssize_t got = ::read(lease, buffer, sizeof buffer);
      if (got == 0 || (got < 0 && errno != EINTR)) return;
      if (got > 0) waiting.append(buffer, static_cast<std::size_t>(got));
      if (waiting.size() > kMaxWaiting) return;
    }
    if (waiting.empty()) continue;
    const ssize_t sent = ::write(to_agent, waiting.data(), waiting.size());
    if (sent > 0) waiting.erase(0, static_cast<std::size_t>(sent));
    if (sent < 0 && errno != EAGAIN && errno != EINTR) return;
  }
}

// Ranks first, and the agent, which hears of it by its pipe and kills them too, only when it does
// not end by itself. Were it killed before them, a guard that is killed in that moment would leave
// ranks without anybody above. Slurm does that: it ends a step as srun goes.
void end_all(pid_t agent, UniqueFd& to_agent) {
  to_agent.reset();
  for (int pass = 0; pass < kAgentEnds && ::waitpid(agent, nullptr, WNOHANG) == 0; ++pass) {
    kill_below(agent);
    kill_descendants({agent});
    const timespec pause{0, 1'000'000};
    ::nanosleep(&pause, nullptr);
  }
  kill_descendants_and_wait();
}

}  // namespace

int run_guard(const std::string& kept) {
  ::prctl(PR_SET_NAME, "hvd-guard", 0, 0, 0);
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);  // ulimit -f counts shared memory too; too much of it is an error
  if (const std::string missing = missing_kernel_feature(); !missing.empty()) {
    std::fprintf(stderr, "hvd-agent: %s\n", missing.c_str());
    return 1;
  }
  // The children of a login shell that became this program: programs that its start-up files have
  // put into the background.
  UniqueFd stand_in;
  if (has_children() && !(stand_in = go_on_in_child())) {
    std::fprintf(stderr, "hvd-agent: cannot start another process: %s\n",
                 ::strerror(errno));  // NOLINT(concurrency-mt-unsafe): one thread
    return 1;
  }
  if (!become_subreaper()) {
    std::fprintf(stderr, "hvd-agent: this kernel has no sub-reapers (Linux 3.4 or newer)\n");
    return 1;
  }
  const UniqueFd lease(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3));
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!lease || !null || ::dup2(null.get(), STDIN_FILENO) < 0) return say_fault("hvd-agent");
  auto bootstrap = read_bootstrap(lease.get());
  if (!bootstrap) {
    std::fprintf(stderr, "hvd-agent: no job came on stdin; hvdrun starts this program itself\n");
    return 1;
  }
  std::optional<IsolationNet> net;
  try {
    net.emplace(bootstrap->isolation,
                bootstrap->job_id + "-" + std::to_string(bootstrap->host_index));
  } catch (const std::runtime_error& e) {
    std::fprintf(stderr, "hvd-agent on %s: %s\n", bootstrap->host_name.c_str(), e.what());
    return 1;
  }
  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC) != 0) return say_fault("hvd-agent on " + bootstrap->host_name);
  UniqueFd agent_end(pipe[0]);
  UniqueFd guard_end(pipe[1]);
  const int control = static_cast<int>(bootstrap->control.fd);
  const int output = static_cast<int>(bootstrap->output.fd);
  const pid_t agent = ::fork();
  if (agent < 0) {
    std::fprintf(stderr, "hvd-agent on %s: cannot start another process: %s\n",
                 bootstrap->host_name.c_str(),
                 ::strerror(errno));  // NOLINT(concurrency-mt-unsafe): one thread
    return 1;
  }
  if (agent == 0) {
    guard_end.reset();
    ::close(lease.get());
    run_agent(std::move(*bootstrap), std::move(agent_end), *net);
  }
  hand_terms_to(agent);
  agent_end.reset();
  // The agent's connections: held here too, their ends would never be seen.
  if (bootstrap->control.addresses.empty()) ::close(control);
  if (bootstrap->output.addresses.empty()) ::close(output);
  AgentWatch watch(agent, std::chrono::milliseconds(bootstrap->lease_ms),
                   bootstrap->control.addresses.empty() ? bootstrap->host_name : std::string());
  bootstrap.reset();

  AgentTouch touch(kept, kTouchAgent, std::chrono::steady_clock::now());
  const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, agent, 0)));
  ::fcntl(guard_end.get(), F_SETFL, O_NONBLOCK);
  if (pidfd) wait_for_end(lease.get(), pidfd.get(), guard_end.get(), watch, touch, stand_in.get());
  int status = 0;
  ::signal(SIGTERM, SIG_DFL);  // from here on it ends this process, as any other
  if (::waitpid(agent, &status, WNOHANG) != agent) status = -1;
  end_all(agent, guard_end);
  return status >= 0 && WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

}  // namespace hvdrun
