#include "cli/openers/ssh/ssh_host.h"

#include <utility>

namespace hvdrun {
namespace {

constexpr int kSshFailed = 255;  // the client's own code

}  // namespace

SshHost::SshHost(boost::asio::io_context& io, std::vector<std::string> argv, bool is_ssh,
                 Request request, Callbacks callbacks)
    : ClientHost(io, {.argv = std::move(argv)}, std::move(request), std::move(callbacks)),
      is_ssh_(is_ssh) {}

RemoteHost::End SshHost::end_of(const ExitStatus& status) const {
  const std::string how = (status.signaled ? "was killed by signal " : "ended with code ") +
                          std::to_string(status.value);
  End end;
  if (!started()) {
    const std::string words = last_words();
    end.why = words.empty() ? program() + " " + how : words;
    end.worth_another_try = is_ssh_ && !shell_runs() && server_hung_up(words);
    end.not_there_yet = is_ssh_ && !shell_runs() && !status.signaled &&
                        status.value == kSshFailed && words_.is_not_there_yet();
  } else if (status.signaled) {
    end.why = "its " + program() + " " + how;
  } else if (is_ssh_ && status.value == kSshFailed) {
    end.why = "the ssh connection to it broke";
  } else if (status.value != 0) {
    end.why = "its guard " + how;
  }
  return end;
}

bool SshHost::hear(const std::string& line) {
  words_.hear(line);
  return true;
}

}  // namespace hvdrun
