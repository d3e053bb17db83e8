// A server of OpenSSL's own (openssl s_server) as a process: a stranger at an address where
// somebody looks for an end of his job. It says every message that passes, decrypted.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

#include "common/base/unique_fd.h"

namespace hvdrun::test {

class OpensslServer {
 public:
  using Options = std::vector<std::string>;

  // Throws std::runtime_error with what it said when it does not listen.
  explicit OpensslServer(const Options& options);
  ~OpensslServer();
  OpensslServer(const OpensslServer&) = delete;
  OpensslServer& operator=(const OpensslServer&) = delete;

  // "127.0.0.1:PORT".
  const std::string& address() const { return address_; }
  // All that it has said so far; what it was sent stands there as it is.
  const std::string& said();
  // Until it has said one of these after that place; false when it does not within 10 s.
  bool wait_for(const std::vector<std::string>& words, std::size_t from = 0);
  // The kinds of messages that clients have sent: "ClientHello Alert", say. "data" is what comes
  // after a handshake.
  std::string heard();

  // A server that a client must not believe, whatever its key is, and what it is.
  struct Stranger {
    std::string what;
    Options options;
  };
  static std::vector<Stranger> strangers(const std::string& identity);

 private:
  // False: nothing came within so many milliseconds, or nothing comes any more.
  bool read_some(int wait);

  UniqueFd near_;
  pid_t process_ = -1;
  std::string said_;
  std::string address_;
};

// The bodies of a ClientHello's extensions, from the record that carries it: all that a client has
// sent. Empty when there is anything else.
std::map<unsigned, std::string> extensions_of_hello(std::string_view record);

}  // namespace hvdrun::test
