#include "coordinator/daemon.h"

#include <algorithm>
#include <cerrno>
#include <exception>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <vector>

#include "common/base/descriptor_limit.h"
#include "common/base/exit_code.h"

namespace hvdrun {
namespace {

[[noreturn]] void run_child(ServerOptions options) {
  ::setsid();
  if (::chdir("/") != 0) ::_exit(exit_code::kInternal);
  ::prctl(PR_SET_NAME, "hvd-coordinator", 0, 0, 0);
  // Ctrl-C and a hang-up are for the driver; the job ends when its connection does.
  for (const int signal : {SIGINT, SIGQUIT, SIGHUP, SIGPIPE}) ::signal(signal, SIG_IGN);
  std::vector<unsigned> keep;
  const auto add = [&keep](const UniqueFd& fd) {
    if (fd) keep.push_back(static_cast<unsigned>(fd.get()));
  };
  add(options.driver);
  add(options.listener);
  add(options.horovod);
  for (const UniqueFd& fd : options.agents) add(fd);
  close_all_but(keep);
  // 0 to 2 must not become sockets by chance.
  for (int fd = 0; fd <= 2; ++fd)
    if (std::find(keep.begin(), keep.end(), static_cast<unsigned>(fd)) == keep.end())
      if (::open("/dev/null", O_RDWR) < 0) ::_exit(exit_code::kInternal);  // NOLINT: kept open
  raise_descriptor_limit();  // each client of Horovod's store has a connection
  int code = exit_code::kOk;
  try {
    boost::asio::io_context io(1);
    Server server(io, std::move(options));
    server.run();
  } catch (const std::exception&) {
    code = exit_code::kInternal;  // the driver sees the connection end
  }
  ::_exit(code);  // the parent's exit handlers are not ours
}

}  // namespace

Process start_coordinator(ServerOptions options) {
  const pid_t pid = ::fork();
  if (pid < 0) throw std::system_error(errno, std::system_category(), "fork");
  if (pid == 0) run_child(std::move(options));
  Process process;
  if (const std::error_code ec = adopt_child(pid, process))
    throw std::system_error(ec, "pidfd_open");
  return process;
}

}  // namespace hvdrun
