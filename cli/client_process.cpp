#include "cli/client_process.h"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <unistd.h>

extern char** environ;

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

}  // namespace

std::error_code start_client(const std::vector<std::string>& argv, Process& client,
                             ClientPipes& pipes) {
  SpawnOptions options;
  options.argv = argv;
  const char* const path = ::secure_getenv("PATH");
  if (const std::error_code ec = find_program(
          argv.front(), path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin", "/", options.path))
    return ec;
  Pipe in;
  Pipe out;
  Pipe err;
  for (Pipe* pipe : {&in, &out, &err})
    if (const std::error_code ec = make_pipe(*pipe)) return ec;
  for (char** entry = environ; *entry != nullptr; ++entry) options.env.emplace_back(*entry);
  options.new_session = true;
  options.fds = {{in.read.get(), 0}, {out.write.get(), 1}, {err.write.get(), 2}};
  if (const std::error_code ec = spawn(options, client)) return ec;
  pipes.in = std::move(in.write);
  pipes.out = std::move(out.read);
  pipes.err = std::move(err.read);
  return {};
}

}  // namespace hvdrun
