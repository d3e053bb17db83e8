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

void HostWatch::read_later() {
  timer_.expires_after(kListPause);
  timer_.async_wait([this](const auto& ec) {
    if (!ec && !stopped_) read();
  });
}

void HostWatch::read() {
  reading_ = std::make_unique<ClientOutput>(io_);
  // A script that leaves a process behind each time would fill the machine.
  ClientOutput::Limits limits = kListLimits;
  limits.whole_group = true;
  const std::error_code ec =
      reading_->start({.argv = command_of(source_)}, limits,
                      [this](ClientOutput::Answer answer) { take(std::move(answer)); });
  if (!ec) return;
  ClientOutput::Answer answer;
  answer.fault = "cannot be read: " + fault_text(ec);
  take(std::move(answer));
}

void HostWatch::take(ClientOutput::Answer answer) {
  if (stopped_) return;
  const auto changed = lister_.take(listing_of(source_, answer));
  for (const std::string& news : lister_.take_news())
    callbacks_.say(source_.where + ": " + source_.text + " " + news);
  if (changed) callbacks_.changed(*changed);
  read_later();
}

HostListing read_once(const HostSource& source) {
  boost::asio::io_context io{1};
  ClientOutput reading(io);
  HostListing listing;
  const std::error_code ec = reading.start(
      {.argv = command_of(source), .own_session = false}, kListLimits,
      [&](const ClientOutput::Answer& answer) { listing = listing_of(source, answer); });
  if (ec) listing.fault = "cannot be read: " + fault_text(ec);
  io.run();
  return listing;
}

}  // namespace hvdrun
