#include "cli/run/host_watch.h"

#include <utility>

#include "common/base/fault_text.h"

namespace hvdrun {
namespace {

HostListing listing_of(const HostSource& source, const ClientOutput::Answer& answer) {
  HostListing listing;
  if (answer.fault.empty())
    listing = read_listing(source, answer.text);
  else
    listing.fault = answer.fault;
  if (answer.held)
    listing.remarks.emplace_back(
        "has left a process behind that holds its output open; what it had said by then counts");
  return listing;
}

}  // namespace

HostWatch::HostWatch(boost::asio::io_context& io, HostSource source, std::vector<HostEntry> hosts,
                     Callbacks callbacks)
    : io_(io),
      source_(std::move(source)),
      lister_(std::move(hosts), source_.kind == HostSource::Kind::hostfile),
      callbacks_(std::move(callbacks)),
      timer_(io) {}

void HostWatch::stop() {
  stopped_ = true;
  timer_.cancel();
  if (reading_) reading_->cancel();
}

std::optional<pid_t> HostWatch::reader() const {
  if (!reading_ || reading_->pid() <= 0) return std::nullopt;
  return reading_->pid();
}

void HostWatch::read_after(std::chrono::milliseconds pause) {
  timer_.expires_after(pause);
  timer_.async_wait([this](const auto& ec) {
    if (!ec && !stopped_) read();
  });
}

void HostWatch::reload() {
  lister_.believe_next();
  if (!reading_now_) read_after(std::chrono::milliseconds(0));
}

void HostWatch::read() {
  reading_now_ = true;
  reading_ = std::make_unique<ClientOutput>(io_);
  const std::error_code ec =
      reading_->start({.argv = command_of(source_)}, kListLimits,
                      [this](const ClientOutput::Answer& answer) { take(answer); });
  if (!ec) return;
  ClientOutput::Answer answer;
  answer.fault = "cannot be read: " + fault_text(ec);
  take(answer);
}

void HostWatch::take(const ClientOutput::Answer& answer) {
  reading_now_ = false;
  if (stopped_) return;
  const auto changed = lister_.take(listing_of(source_, answer));
  for (const std::string& news : lister_.take_news())
    callbacks_.say(source_.where + ": " + source_.text + " " + news);
  if (changed) callbacks_.changed(*changed);
  read_after(pause());
}

HostListing read_once(const HostSource& source) {
  boost::asio::io_context io{1};
  ClientOutput reading(io);
  HostListing listing;
  const std::error_code ec = reading.start(
      {.argv = command_of(source)}, kListLimits,
      [&](const ClientOutput::Answer& answer) { listing = listing_of(source, answer); });
  if (ec) listing.fault = "cannot be read: " + fault_text(ec);
  io.run();
  return listing;
}

}  // namespace hvdrun
