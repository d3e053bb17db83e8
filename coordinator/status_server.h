// The coordinator's door for hvdrun status: connections of the same user, who may ask and do
// nothing else.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include <boost/asio/io_context.hpp>

#include "common/net/unix_listener.h"
#include "common/wire/frame_channel.h"
#include "common/wire/status_messages.h"

namespace hvdrun {

class StatusServer {
 public:
  // `on_query` gets the number of the asker, for answer(); `on_trouble` a line for the user.
  StatusServer(boost::asio::io_context& io, std::string job_id,
               std::function<void(std::uint64_t asker, const StatusQuery&)> on_query,
               std::function<void(const std::string&)> on_trouble = {});
  // An asker who has gone meanwhile is no error.
  void answer(std::uint64_t asker, const JobStatus& status);

 private:
  void greet(std::unique_ptr<ByteStream> stream);

  std::string job_id_;
  std::function<void(std::uint64_t, const StatusQuery&)> on_query_;
  std::map<std::uint64_t, std::shared_ptr<FrameChannel>> askers_;
  std::uint64_t next_asker_ = 1;
  UnixListener listener_;
};

}  // namespace hvdrun
