// Many agents in one process, without hosts and ranks: they say to a coordinator what hvd-agent
// would say, and measure nothing. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "common/net/tls_psk.h"
#include "common/wire/frame_channel.h"
#include "common/wire/messages.h"

namespace hvdrun::bench {

class FakeAgents {
 public:
  // The milestones that all agents of this process have passed.
  enum class Milestone : char { released = 'r', fetched = 'f', begun = 'b', ended = 'e' };
  struct Options {
    std::string job_id;
    std::string secret;
    std::string address;  // of the coordinator
    std::uint32_t first = 0;
    std::uint32_t count = 0;  // hosts first .. first+count-1
    std::uint32_t connecting_at_once = 64;
    bool elastic = false;  // ranks go on when others are lost, and take nothing from the store
  };

  FakeAgents(boost::asio::io_context& io, Options options,
             std::function<void(Milestone)> on_milestone,
             std::function<void(const std::string&)> on_trouble);

  void connect();
  // The ranks call hvd::init: line to the agent, key into the store, fence, two neighbours' keys.
  void join();
  void exit();
  // All ranks go on from now on when others are lost.
  void enter_elastic();
  // The first host is lost.
  void lose_one();

 private:
  struct Agent {
    std::uint32_t host = 0;
    std::shared_ptr<FrameChannel> channel;
    std::uint32_t epoch = 0;
    std::uint32_t size = 0;
    std::vector<std::uint32_t> ranks;
    std::uint32_t to_fetch = 0;
    bool at_door = false;
    bool has_root = false;  // rank 0 is here
  };

  void connect_next();
  void open(Agent& agent, std::unique_ptr<ByteStream> stream);
  void on_frame(Agent& agent, const Frame& frame);
  void fetch(Agent& agent);
  void on_elastic_frame(Agent& agent, const Frame& frame);
  void come_to_doors(Agent& agent);
  void join(Agent& agent);
  void beat();
  void reach(Milestone milestone, std::uint32_t& count);
  template <class M>
  void up(Agent& agent, const M& message) {
    if (agent.channel) agent.channel->send(message, agent.epoch);
  }

  boost::asio::io_context& io_;
  Options options_;
  std::function<void(Milestone)> on_milestone_;
  std::function<void(const std::string&)> on_trouble_;
  std::shared_ptr<TlsContext> tls_;
  boost::asio::steady_timer heartbeat_;
  std::vector<Agent> agents_;
  std::uint32_t next_ = 0;  // to connect
  std::uint32_t released_ = 0;
  std::uint32_t fetched_ = 0;
  std::uint32_t begun_ = 0;
  std::uint32_t ended_ = 0;
};

}  // namespace hvdrun::bench
