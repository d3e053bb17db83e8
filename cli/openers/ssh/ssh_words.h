// The meaning of the ssh client's words on its stderr. It speaks English whatever the locale is.
// Sans-I/O.
#pragma once

#include <string>

namespace hvdrun {

// The client's words for a host whose key is in no known_hosts file; another key than the known one
// is something else.
bool is_unknown_host_key(const std::string& words);

// The client's words when the server ends the connection before anything else is said.
bool server_hung_up(const std::string& words);

// All that a client says until it ends, line by line.
class SshWords {
 public:
  void hear(const std::string& line);
  // It came to nobody who could have refused: the host is off, its name is not known, its sshd does
  // not run yet, or lets nobody in yet. Of a jump host too.
  bool is_not_there_yet() const { return absent_ && !refused_; }

 private:
  bool absent_ = false;
  bool refused_ = false;
};

}  // namespace hvdrun
