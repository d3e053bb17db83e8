#include "cli/viewer.h"

#include <unistd.h>
#include <utility>

#include "common/hello.h"
#include "common/limits.h"
#include "common/unix_stream.h"

namespace hvdrun {

namespace asio = boost::asio;

Viewer::Viewer(asio::io_context& io, std::string job_id, std::function<void(int)> on_broken)
    : io_(io),
      job_id_(std::move(job_id)),
      out_(io, STDOUT_FILENO, on_broken),
      err_(io, STDERR_FILENO, std::move(on_broken)) {}

void Viewer::forget(std::uint32_t host) {
  hosts_.erase(host);
  if (hosts_.empty()) listener_.reset();
  written();
}

void Viewer::forget_unless_connected(std::uint32_t host) {
  const auto expected = hosts_.find(host);
  if (expected != hosts_.end() && !expected->second) forget(host);
}

void Viewer::attach(std::uint32_t host, UniqueFd fd) {
  greet(std::make_shared<FrameChannel>(make_unix_stream(io_, std::move(fd))), host);
}

void Viewer::listen(UniqueFd listener, const std::string& secret) {
  listener_.emplace(
      io_, std::move(listener), PskKey{job_id_, secret},
      [this](std::unique_ptr<ByteStream> stream) {
        greet(std::make_shared<FrameChannel>(std::move(stream)), std::nullopt);
      },
      [this](const std::string& trouble) { say("output: " + trouble); });
}

void Viewer::greet(const Channel& channel, std::optional<std::uint32_t> host) {
  const std::weak_ptr<FrameChannel> weak = channel;
  channel->start(
      [this, weak, host](const Frame& frame) {
        const auto self = weak.lock();
        Hello hello;
        auto refusal = check_hello(frame, job_id_, hello);
        const auto expected = hosts_.find(hello.host_index);
        if (!refusal && (hello.role != Role::output || expected == hosts_.end() ||
                         expected->second || (host && *host != hello.host_index)))
          refusal = Refuse{Errc::unexpected_message, "nobody like that is expected"};
        if (refusal) {
          self->send(*refusal);
          return self->close_when_sent();
        }
        const std::uint32_t index = hello.host_index;
        expected->second = self;
        self->send(Welcome{});
        self->set_callbacks([this, index](const Frame& next) { on_frame(index, next); },
                            [this, index](std::error_code) { forget(index); });
      },
      // An inherited socket that ends before its hello will not come again.
      [this, host](std::error_code) {
        if (host) forget(*host);
      });
}

void Viewer::on_frame(std::uint32_t host, const Frame& frame) {
  Output message;
  if (frame.type == MessageType::output && !decode(frame.payload, message)) show(host, message);
}

void Viewer::show(std::uint32_t host, const Output& message) {
  if (on_output) on_output(message);
  const bool is_out = message.stream == OutputStream::out;
  Console& console = is_out ? out_ : err_;
  const auto size = static_cast<std::uint32_t>(message.bytes.size());
  const std::uint32_t rank = message.rank;
  console.write((is_out ? out_formatter_ : err_formatter_).format(message),
                [this, host, rank, size] {
                  const auto channel = hosts_.find(host);
                  if (channel != hosts_.end() && channel->second)
                    channel->second->send(Credit{rank, size});
                  written();
                });
}

void Viewer::say(const std::string& text) {
  // The callback matters: this may be the last thing that all_shown() waits for.
  err_.write("hvdrun: " + text + "\n", [this] { written(); });
}

void Viewer::written() {
  if (on_all_closed && all_shown()) on_all_closed();
}

bool Viewer::all_shown() const { return hosts_.empty() && out_.idle() && err_.idle(); }

}  // namespace hvdrun
