#include "cli/output/viewer.h"

#include <cerrno>
#include <system_error>
#include <unistd.h>
#include <utility>

#include "common/base/fault_text.h"
#include "common/base/limits.h"
#include "common/net/unix_stream.h"
#include "common/wire/hello.h"

namespace hvdrun {

namespace asio = boost::asio;

Viewer::Viewer(asio::io_context& io, std::string job_id, const OutputOptions& options,
               RankTable table, std::unique_ptr<OutputFiles> files,
               std::function<void(int)> on_broken)
    : io_(io),
      job_id_(std::move(job_id)),
      table_(std::make_shared<RankTable>(std::move(table))),
      files_(std::move(files)),
      on_broken_(std::move(on_broken)) {
  const auto held = std::make_shared<HeldBytes>();
  const auto open = [&](bool out) {
    return std::make_shared<OutputView>(
        io_, out ? STDOUT_FILENO : STDERR_FILENO, options, table_, held,
        OutputView::Events{
            [this](std::uint32_t rank, std::uint32_t bytes) { on_taken(rank, bytes); },
            [this] { notify(); }, [this, out](int error) { broken(out, error); }});
  };
  out_ = open(true);
  err_ = SharedFd::same_file(STDOUT_FILENO, STDERR_FILENO) ? out_ : open(false);
  input_ = std::make_unique<RankInput>(
      io_, options.stdin_to, table_, [this](const Input& input) { send(input.rank, input); },
      [this](const std::string& text) { say(text); });
  if (files_ && !files_->moved_to().empty())
    say("the files of an earlier run are in " + files_->moved_to() + " now");
}

void Viewer::grow(const RankTable& table) {
  *table_ = table;
  out_->grow();
  if (err_ != out_) err_->grow();
  for (auto& [host, frame] : std::exchange(early_, {})) on_frame(host, frame);
}

bool Viewer::is_early(const Frame& frame) const {
  constexpr std::size_t kMost = 4096;
  Output output;
  OutputClosed closed;
  const bool is_output = frame.type == MessageType::output && !decode(frame.payload, output) &&
                         output.rank >= table_->size();
  const bool is_end = frame.type == MessageType::output_closed && !decode(frame.payload, closed) &&
                      closed.rank >= table_->size();
  return (is_output || is_end) && early_.size() < kMost;
}

void Viewer::sync(std::unique_ptr<SyncedFiles> files) {
  synced_ = std::move(files);
  synced_->set_job([this](std::uint32_t host) { return table_->hosts()[host].name; },
                   [this](const std::string& text) { say(text); });
}

bool Viewer::keep_file(std::uint32_t host, const Frame& frame) {
  const auto reply = synced_ ? synced_->take(host, frame) : std::nullopt;
  if (reply && !reply->empty()) hosts_[host]->send_bytes(*reply);
  return reply.has_value();
}

void Viewer::begin_epoch(const std::vector<EpochMember>& members) {
  out_->begin_epoch(members);
  if (err_ != out_) err_->begin_epoch(members);
}

bool Viewer::is_connected(std::uint32_t host) const {
  const auto found = hosts_.find(host);
  return found != hosts_.end() && found->second;
}

void Viewer::forget(std::uint32_t host) {
  hosts_.erase(host);
  if (synced_) synced_->forget(host);
  input_->forget(host);
  if (!hosts_.empty()) return;
  listener_.reset();
  input_->hint();
  out_->finish();
  err_->finish();
  notify();
}

void Viewer::expect_again(std::uint32_t host) {
  if (const Channel old = std::exchange(hosts_[host], nullptr)) old->close();
  if (synced_) synced_->forget(host);
  input_->forget(host);
}

void Viewer::forget_unless_connected(std::uint32_t host) {
  const auto expected = hosts_.find(host);
  if (expected != hosts_.end() && !expected->second) forget(host);
}

void Viewer::give_up(std::uint32_t host) {
  const auto expected = hosts_.find(host);
  if (expected == hosts_.end()) return;
  if (expected->second) expected->second->close();
  forget(host);
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
        self->keep_trying_for(limits::kOutputPatience);
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
  ++heard_;
  const auto owns = [&](std::uint32_t rank) {
    return rank < table_->size() && (*table_)[rank].host == host;
  };
  const auto is = [&]<class M>(M& message) {
    return frame.type == M::kType && !decode(frame.payload, message) && owns(message.rank);
  };
  Output output;
  OutputClosed closed;
  InputCredit input_credit;
  InputClosed input_closed;
  TimelineBatch timeline_batch;
  TimelineControl timeline_control;
  if (is(output)) {
    if (on_output) on_output(output);
    if (files_) keep(output);
    OutputView& view = view_of(output.stream);
    view.push({OutputItem::Kind::output, std::move(output)});
  } else if (is(closed)) {
    view_of(closed.stream)
        .push({OutputItem::Kind::closed, {closed.rank, closed.stream, false, {}}});
  } else if (input_->is_used() && is(input_credit)) {
    input_->credit(input_credit);
  } else if (input_->is_used() && is(input_closed)) {
    input_->closed(input_closed);
  } else if (is(timeline_batch)) {
    if (on_timeline_batch) on_timeline_batch(timeline_batch);
  } else if (is(timeline_control)) {
    if (on_timeline_control) on_timeline_control(timeline_control);
  } else if (keep_file(host, frame)) {
    return;
  } else if (may_grow_ && is_early(frame)) {
    early_.emplace_back(host, frame);
  } else {
    say("the agent on " + table_->hosts()[host].name +
        " sent output that hvdrun does not understand; the rest of it is not shown");
    hosts_[host]->close();
    forget(host);
  }
}

void Viewer::keep(const Output& message) {
  // A full disk fails every file: so many are named.
  constexpr std::uint32_t kNamed = 4;
  const std::error_code ec = files_->write(message);
  if (!ec) return;
  ++files_failed_;
  if (files_failed_ <= kNamed)
    say(files_->path(message.rank, message.stream, message.start) + ": " + fault_text(ec) +
        "; the file ends here, the job goes on" +
        (files_failed_ < kNamed ? "" : " (further ones are not named)"));
}

template <class M>
void Viewer::send(std::uint32_t rank, const M& message) {
  const auto channel = hosts_.find((*table_)[rank].host);
  if (channel != hosts_.end() && channel->second) channel->second->send(message);
}

void Viewer::on_taken(std::uint32_t rank, std::uint32_t bytes) { send(rank, Credit{rank, bytes}); }

void Viewer::broken(bool out, int error) {
  // A full disk, say; when the reader has gone the job ends instead. EBADF: started without it.
  if (error != EPIPE && out && err_ != out_)
    say(error == EBADF
            ? std::string("stdout is closed: what the ranks write there is lost; write "
                          ">/dev/null where that is meant")
            : "stdout: " + std::system_category().message(error) + "; output there ends here");
  on_broken_(error);
}

bool Viewer::hurry() {
  if (std::exchange(in_hurry_, true)) return false;
  out_->hurry();
  if (err_ != out_) err_->hurry();
  return true;
}

void Viewer::say(const std::vector<std::string>& lines, Kind kind) {
  std::string text;
  for (const std::string& line : lines) text.append("hvdrun: ").append(line).append("\n");
  if (!text.empty()) err_->say(text, kind);
}

void Viewer::notify() {
  if (on_all_closed && all_shown()) on_all_closed();
}

bool Viewer::all_shown() const { return hosts_.empty() && out_->idle() && err_->idle(); }

}  // namespace hvdrun
