#include "coordinator/status_server.h"

#include <unistd.h>
#include <utility>

#include "common/base/limits.h"
#include "common/net/status_socket.h"
#include "common/wire/hello.h"

namespace hvdrun {

StatusServer::StatusServer(boost::asio::io_context& io, std::string job_id,
                           std::function<void(std::uint64_t, const StatusQuery&)> on_query,
                           std::function<void(const std::string&)> on_trouble)
    : job_id_(std::move(job_id)),
      on_query_(std::move(on_query)),
      listener_(
          io, status_socket_prefix(::geteuid()) + job_id_,
          [this](std::unique_ptr<ByteStream> stream, pid_t) { greet(std::move(stream)); },
          std::move(on_trouble)) {}

void StatusServer::greet(std::unique_ptr<ByteStream> stream) {
  if (askers_.size() >= limits::kMaxStatusAskers) return;
  const std::uint64_t asker = next_asker_++;
  const auto channel = std::make_shared<FrameChannel>(std::move(stream));
  askers_[asker] = channel;
  channel->start(
      [this, asker, greeted = false](const Frame& frame) mutable {
        const auto known = askers_.find(asker);
        if (known == askers_.end()) return;
        const auto self = known->second;
        const auto refuse = [&](const Refuse& refusal) {
          self->send(refusal);
          self->close_when_sent();
          askers_.erase(asker);
        };
        if (!greeted) {
          Hello hello;
          if (const auto refusal = check_hello(frame, job_id_, hello)) return refuse(*refusal);
          if (hello.role != Role::status)
            return refuse({Errc::unexpected_message, "only questions are answered here"});
          greeted = true;
          self->send(Welcome{});
          return;
        }
        StatusQuery query;
        if (frame.type != MessageType::status_query || decode(frame.payload, query))
          return refuse({Errc::unexpected_message, "a status query was expected"});
        on_query_(asker, query);
      },
      [this, asker](std::error_code) { askers_.erase(asker); });
}

void StatusServer::answer(std::uint64_t asker, const JobStatus& status) {
  const auto known = askers_.find(asker);
  if (known != askers_.end()) known->second->send(status);
}

}  // namespace hvdrun
