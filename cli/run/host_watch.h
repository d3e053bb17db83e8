// Reads a source of hosts again and again while the job runs, and tells when it has changed. One
// reading at a time; one that hangs is ended.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "cli/hosts/host_source.h"
#include "cli/openers/client_output.h"

namespace hvdrun {

// Between the end of a reading and the next, as horovodrun has it.
inline constexpr std::chrono::milliseconds kListPause{1'000};
// Likewise for Slurm, whose controller answers all jobs.
inline constexpr std::chrono::milliseconds kSlurmPause{10'000};
// A script that leaves a process behind each time would fill the machine.
inline constexpr ClientOutput::Limits kListLimits{
    .time = std::chrono::milliseconds(60'000), .bytes = 8U << 20U, .whole_group = true};

class HostWatch {
 public:
  struct Callbacks {
    std::function<void(const std::string&)> say;
    std::function<void(std::vector<HostEntry>)> changed;
  };

  // `hosts`: those that the job began with.
  HostWatch(boost::asio::io_context& io, HostSource source, std::vector<HostEntry> hosts,
            Callbacks callbacks);
  void start() { read_after(pause()); }
  // Now, and a list counts at once.
  void reload();
  // Nothing is read or told any more.
  void stop();
  // The program that reads now, if one does.
  std::optional<pid_t> reader() const;

 private:
  std::chrono::milliseconds pause() const {
    return source_.kind == HostSource::Kind::slurm ? kSlurmPause : kListPause;
  }
  void read_after(std::chrono::milliseconds pause);
  void read();
  void take(const ClientOutput::Answer& answer);

  boost::asio::io_context& io_;
  const HostSource source_;
  HostLister lister_;
  const Callbacks callbacks_;
  boost::asio::steady_timer timer_;
  std::unique_ptr<ClientOutput> reading_;
  bool reading_now_ = false;
  bool stopped_ = false;
};

// One reading, which is waited for. The process must have one thread.
HostListing read_once(const HostSource& source);

}  // namespace hvdrun
