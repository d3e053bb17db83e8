// A host opened by the ssh client, or by what the user names in its place.
#pragma once

#include <string>
#include <vector>

#include "cli/openers/client_host.h"
#include "cli/openers/ssh/ssh_words.h"

namespace hvdrun {

class SshHost : public ClientHost {
 public:
  // `is_ssh`: its exit code 255 is ssh's own.
  SshHost(boost::asio::io_context& io, std::vector<std::string> argv, bool is_ssh, Request request,
          Callbacks callbacks);

 protected:
  End end_of(const ExitStatus& status) const override;
  bool hear(const std::string& line) override;

 private:
  const bool is_ssh_;
  SshWords words_;
};

}  // namespace hvdrun
