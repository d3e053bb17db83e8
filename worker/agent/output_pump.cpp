#include "worker/agent/output_pump.h"

#include <utility>

#include "common/limits.h"

namespace hvdrun {

void OutputPump::set_viewer(std::shared_ptr<FrameChannel> viewer) {
  viewer_ = std::move(viewer);
  for (const auto& [key, source] : sources_) read(source);
}

void OutputPump::add(std::uint32_t rank, OutputStream stream, UniqueFd pipe) {
  const auto source = std::make_shared<Source>(io_, rank, stream, pipe.release());
  sources_[{rank, stream}] = source;
  credit_.emplace(rank, limits::kOutputCredit);
  read(source);
}

void OutputPump::read(const std::shared_ptr<Source>& source) {
  if (source->reading || (viewer_ && credit_[source->rank] <= 0)) return;
  source->reading = true;
  source->pipe.async_read_some(
      boost::asio::buffer(source->buffer), [this, source](const auto& ec, std::size_t size) {
        source->reading = false;
        if (ec) {
          std::string rest = source->splitter.take_rest();
          if (!rest.empty()) send(*source, std::move(rest), true);
          if (viewer_) viewer_->send(OutputClosed{source->rank, source->stream});
          sources_.erase({source->rank, source->stream});
          if (sources_.empty()) on_all_closed_();
          return;
        }
        std::string lines;
        bool partial = false;
        source->splitter.feed(std::string_view(source->buffer.data(), size), lines, partial);
        if (!lines.empty()) send(*source, std::move(lines), partial);
        read(source);
      });
}

void OutputPump::send(const Source& source, std::string bytes, bool partial) {
  if (!viewer_) return;
  credit_[source.rank] -= static_cast<std::int64_t>(bytes.size());
  viewer_->send(Output{source.rank, source.stream, partial, std::move(bytes)});
}

void OutputPump::credit(const Credit& message) {
  const auto left = credit_.find(message.rank);
  if (left == credit_.end()) return;
  left->second += message.bytes;
  for (const OutputStream stream : {OutputStream::out, OutputStream::err}) {
    const auto source = sources_.find({message.rank, stream});
    if (source != sources_.end()) read(source->second);
  }
}

}  // namespace hvdrun
