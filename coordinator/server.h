// The coordinator's connections: carries frames between the wire and the Job. One thread.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include "common/base/lease.h"
#include "common/base/unique_fd.h"
#include "common/net/tls_listener.h"
#include "common/wire/frame_channel.h"
#include "coordinator/driver_backlog.h"
#include "coordinator/horovod/horovod_desk.h"
#include "coordinator/horovod/horovod_hub.h"
#include "coordinator/job.h"
#include "coordinator/status_board.h"

namespace hvdrun {

struct ServerOptions {
  JobSpec spec;
  UniqueFd driver;               // connected
  std::vector<UniqueFd> agents;  // connected, one for each local agent
  UniqueFd listener;             // TCP, listening; none when no agent comes from elsewhere
  std::string secret;            // for the listener
  std::uint32_t driver_pid = 0;  // for hvdrun status
  UniqueFd horovod;              // TCP, listening, for Horovod's store; none: agents serve it
};

class Server {
 public:
  Server(boost::asio::io_context& io, ServerOptions options);
  ~Server();
  // Serves until the job has ended and everybody has gone (or had time enough to).
  void run();

 private:
  // The other end of a connection. On this machine: over a socket pair, whose end tells all that a
  // lease would, since their parents know when they are stopped (stop_clock.h).
  enum class Origin { driver, this_machine, elsewhere };
  struct Peer {
    std::shared_ptr<FrameChannel> channel;
    std::optional<Lease> lease;  // none: of this machine
  };

  void handshake(const std::shared_ptr<FrameChannel>& channel, Origin origin);
  void refuse(const std::shared_ptr<FrameChannel>& channel, Errc code, const std::string& reason);
  void adopt_agent(const std::shared_ptr<FrameChannel>& channel, std::uint32_t host, Origin origin);
  // Horovod's store: at a port of this machine, or, without one, for the agents.
  void serve_horovod(UniqueFd listener);
  Errc on_horovod(std::uint32_t host, const Frame& frame);
  void note_gathering(HorovodStore::Gathering who);
  // Somebody comes to meet the others before an epoch that has a place for it.
  bool comes_early(std::uint32_t host, std::uint32_t rank);
  // Tells the job who has come to meet, and that all have.
  void note_horovod();
  void send_horovod();
  bool answer_clock(std::uint32_t host, const Frame& frame);
  void note_own_address(std::uint32_t host, const Frame& frame);
  void adopt_driver(const std::shared_ptr<FrameChannel>& channel);
  void lose_agent(std::uint32_t host, const std::string& why);
  // Its agent hears nothing more; what it has started ends with that.
  void hang_up(std::uint32_t host);
  // Sends what the job wants sent, sets the timer anew, and ends when the job has.
  void after_event();
  void arm_timer();
  void on_timer();
  // Heartbeats to the agents elsewhere; names those that say nothing, and loses those whose lease
  // is over.
  void look_after_agents(TimePoint time);
  void heard_from(std::uint32_t host);
  void on_query(const StatusQuery& query);
  void answer_queries();
  void send_to_agent(std::uint32_t host, std::string frame,
                     std::shared_ptr<const std::string> rest);
  void to_driver(std::string frame);
  void log(LogLevel level, const std::string& text);
  void warn(const std::string& text);  // about hosts, not about the coordinator

  boost::asio::io_context& io_;
  Job job_;
  std::uint32_t driver_pid_;
  StatusBoard board_;
  std::optional<TlsListener> listener_;
  std::optional<HorovodDesk> horovod_;
  std::optional<HorovodHub> horovod_hub_;
  std::uint64_t noted_gathering_ = 0;
  std::uint64_t noted_meetings_ = 0;
  std::shared_ptr<FrameChannel> driver_;
  DriverBacklog backlog_;
  std::vector<Peer> agents_;  // by host index
  std::size_t agents_here_ = 0;
  std::set<std::shared_ptr<FrameChannel>> handshaking_;
  boost::asio::steady_timer timer_;
  std::string clock_;  // own_clock(), once somebody has asked
  bool own_address_known_ = false;
  TimePoint next_heartbeat_;
  TimePoint next_look_ = TimePoint::max();  // at the agents' leases; never: none is elsewhere
  std::optional<TimePoint> leave_by_;       // once the job has ended
};

}  // namespace hvdrun
