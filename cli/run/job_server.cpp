#include "cli/run/job_server.h"

#include <unistd.h>
#include <utility>

#include "common/base/limits.h"
#include "common/net/status_socket.h"
#include "common/wire/hello.h"

namespace hvdrun {

JobServer::JobServer(boost::asio::io_context& io, std::string job_id, Callbacks callbacks)
    : job_id_(std::move(job_id)),
      callbacks_(std::move(callbacks)),
      listener_(
          io, status_socket_prefix(::geteuid()) + job_id_,
          [this](std::unique_ptr<ByteStream> stream, pid_t) { greet(std::move(stream)); },
          callbacks_.trouble) {}

void JobServer::greet(std::unique_ptr<ByteStream> stream) {
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
        if (!ask(asker, frame)) refuse({Errc::unexpected_message, "a question was expected"});
      },
      [this, asker](std::error_code) { askers_.erase(asker); });
}

bool JobServer::ask(std::uint64_t asker, const Frame& frame) {
  StatusQuery query;
  HostsOrder order;
  if (frame.type == MessageType::status_query && !decode(frame.payload, query)) {
    callbacks_.status(asker, query);
    return true;
  }
  if (frame.type != MessageType::hosts_order || decode(frame.payload, order)) return false;
  callbacks_.hosts(asker, order);
  return true;
}

}  // namespace hvdrun
