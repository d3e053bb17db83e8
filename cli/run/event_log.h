// --events FILE: every change of state of the job and its ranks as a line of JSON, written when it
// happens. docs/events.md has the schema. A file has a line at once; what a pipe does not take
// waits here, within a bound, and nothing else waits for it but, for a while, the end of hvdrun.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "cli/output/fd_writer.h"
#include "cli/output/own_lines.h"
#include "common/base/unique_fd.h"
#include "common/host/topology.h"
#include "common/wire/messages.h"

namespace hvdrun {

class EventLog {
 public:
  // Writes nothing.
  EventLog() = default;
  // Appends to the file. Throws UsageError that names it, also for a pipe without a reader.
  EventLog(const std::string& path, std::string job_id);

  // Before the first event, and it must not be moved any more. `on_progress` is called, not from
  // in here, when is_written() may have become true.
  void start(boost::asio::io_context& io, std::function<void()> on_progress);

  // Nothing waits for the reader of a pipe. One that was given up counts once take_fault() has it.
  bool is_written() const {
    return !writer_ || (writer_->waiting() == 0 && (failed_ || !writer_->is_broken()));
  }
  // As FdWriter's.
  void hurry(std::chrono::milliseconds patience);

  void job_started(std::uint32_t size, const std::vector<std::string>& hosts,
                   const std::vector<std::string>& argv);
  void rank(const RankEvent& event, const std::string& host);
  // The slots have these ranks from now on.
  void epoch(std::uint32_t number, const EpochBegun& message);
  // `hosts` are the names, by index.
  void stall(const StallWarning& warning, const std::vector<HostSlots>& hosts);
  void job_ended(const JobEnded& verdict);
  // The reason why nothing more is written, once; empty otherwise.
  std::string take_fault() { return std::exchange(fault_, {}); }

 private:
  std::string line(const std::string& event, const std::string& fields) const;
  void write(const std::string& event, const std::string& fields,
             OwnLines::Kind kind = OwnLines::Kind::news);
  void count_written();
  void fail(const std::string& why);

  UniqueFd file_;
  std::string job_id_;
  std::unique_ptr<OwnLines> lines_;
  std::unique_ptr<FdWriter> writer_;
  std::uint64_t counted_ = 0;  // of the bytes that the console has written
  bool ended_ = false;
  bool failed_ = false;
  std::string fault_;
};

}  // namespace hvdrun
