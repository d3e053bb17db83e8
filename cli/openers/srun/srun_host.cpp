#include "cli/openers/srun/srun_host.h"

#include <signal.h>
#include <utility>

#include "cli/openers/srun/srun_command.h"

namespace hvdrun {
namespace {

constexpr int kSignalBase = 128;  // of srun's exit code, when its task was killed

}  // namespace

SrunHost::SrunHost(boost::asio::io_context& io, const std::string& node,
                   std::optional<std::uint32_t> component, const std::string& script,
                   std::uint64_t descriptor_limit, Request request, Callbacks callbacks)
    : ClientHost(io,
                 {.argv = srun_command(node, component, script),
                  .env = srun_environment(own_environment()),
                  .descriptor_limit = descriptor_limit},
                 std::move(request), std::move(callbacks)) {}

SrunHost::~SrunHost() { signal_client(SIGKILL); }

// On SIGTERM it has everything of its step killed.
void SrunHost::give_up() { signal_client(SIGTERM); }

void SrunHost::call_off() { signal_client(SIGTERM); }

int SrunHost::leave() {
  signal_client(SIGTERM);
  return client_pidfd();
}

const char* SrunHost::stage() const {
  return shell_runs() ? ClientHost::stage() : "starting a job step";
}

std::string SrunHost::cause() const {
  if (!started()) return last_words();
  return !step_end_.empty() ? "its job step was ended: " + step_end_
         : !error_.empty()  ? "srun: " + error_
                            : "";
}

bool SrunHost::hear(const std::string& line) {
  if (started() && step_end_.empty()) step_end_ = step_end_in(line);
  if (started() && error_.empty()) error_ = srun_error_in(line);
  if (!started()) return line.find("lacks support for cpu binding") == line.npos;
  return !line.starts_with("srun: ");
}

RemoteHost::End SrunHost::end_of(const ExitStatus& status) const {
  const std::string value = std::to_string(status.value);
  End end;
  if (!started()) {
    end.why = last_words();
    if (end.why.empty())
      end.why =
          program() + (status.signaled ? " was killed by signal " : " ended with code ") + value;
  } else if (!step_end_.empty() || (status.value != 0 && !error_.empty())) {
    end.why = cause();
  } else if (status.signaled) {
    end.why = "its srun was killed by signal " + value;
  } else if (status.value > kSignalBase) {
    end.why = "its guard was killed by signal " + std::to_string(status.value - kSignalBase);
  } else if (status.value != 0) {
    end.why = "its guard ended with code " + value;
  }
  return end;
}

}  // namespace hvdrun
