// The door of a running job for its user's other commands (hvdrun status, hosts, reload):
// connections of the same user, who may ask these things and do nothing else.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include <boost/asio/io_context.hpp>

#include "common/net/unix_listener.h"
#include "common/wire/frame_channel.h"
#include "common/wire/messages.h"

namespace hvdrun {

class JobServer {
 public:
  // Each gets the number of the asker, for answer().
  struct Callbacks {
    std::function<void(std::uint64_t asker, const StatusQuery&)> status;
    std::function<void(std::uint64_t asker, const HostsOrder&)> hosts;
    std::function<void(const std::string&)> trouble;  // a line for the user
  };

  // Throws boost::system::system_error when it cannot listen.
  JobServer(boost::asio::io_context& io, std::string job_id, Callbacks callbacks);
  // An asker who has gone meanwhile is no error.
  template <class M>
  void answer(std::uint64_t asker, const M& message) {
    const auto known = askers_.find(asker);
    if (known != askers_.end()) known->second->send(message);
  }

 private:
  void greet(std::unique_ptr<ByteStream> stream);
  // False: it is no question.
  bool ask(std::uint64_t asker, const Frame& frame);

  std::string job_id_;
  Callbacks callbacks_;
  std::map<std::uint64_t, std::shared_ptr<FrameChannel>> askers_;
  std::uint64_t next_asker_ = 1;
  UnixListener listener_;
};

}  // namespace hvdrun
