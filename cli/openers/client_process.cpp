#include "cli/openers/client_process.h"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include "common/process/process_tree.h"

namespace hvdrun {
namespace {

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

std::error_code make_pipe(Pipe& made) {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) return {errno, std::system_category()};
  made.read.reset(fds[0]);
  made.write.reset(fds[1]);
  return {};
}

std::error_code find_client(const std::string& name, std::string& file) {
  const char* const path = ::secure_getenv("PATH");
  return find_program(name, path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin", "/", file);
}

}  // namespace

bool is_program(const std::string& name) {
  std::string file;
  return !find_client(name, file);
}

void signal_client_tree(const Process& client, int signal) {
  // One that has ended has nothing below it, and its number may be another's by now.
  if (client.pid <= 0 || is_over(client)) return;
  if (signal == SIGKILL) {
    send_signal(client, SIGSTOP);
    kill_below(client.pid);
    return send_signal(client, SIGKILL);
  }
  const std::vector<pid_t> below = living_below(client.pid);
  send_signal(client, signal);
  for (const pid_t pid : below) ::kill(pid, signal);
}

std::error_code start_client(const ClientCommand& command, Process& client, ClientPipes& pipes) {
  SpawnOptions options;
  options.argv = command.argv;
  if (const std::error_code ec = find_client(options.argv.front(), options.path)) return ec;
  Pipe in;
  Pipe out;
  Pipe err;
  for (Pipe* pipe : {&in, &out, &err})
    if (const std::error_code ec = make_pipe(*pipe)) return ec;
  options.env = command.env ? *command.env : own_environment();
  options.descriptor_limit = command.descriptor_limit;
  options.new_session = true;
  options.fds = {{in.read.get(), 0}, {out.write.get(), 1}, {err.write.get(), 2}};
  if (const std::error_code ec = spawn(options, client)) return ec;
  pipes.in = std::move(in.write);
  pipes.out = std::move(out.read);
  pipes.err = std::move(err.read);
  return {};
}

}  // namespace hvdrun
