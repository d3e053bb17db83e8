// Each host's progress in a job: needed, its agent here, ready or lost. Sans-I/O.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/wire/job_messages.h"

namespace hvdrun {

class HostRoster {
 public:
  explicit HostRoster(std::size_t hosts) : hosts_(hosts) {}

  std::uint32_t size() const { return static_cast<std::uint32_t>(hosts_.size()); }
  // The host has ranks.
  void need(std::uint32_t host) { hosts_[host].stage = Stage::awaited; }
  void connected(std::uint32_t host) { hosts_[host].stage = Stage::connected; }
  // Its agent waits for ranks to start. Only once: false when it has said so before.
  bool ready(std::uint32_t host, const AgentReady& message);
  // One more host, lost until it has been opened.
  void add() { hosts_.push_back({.lost = true}); }
  // It is not needed any more, and is told to go: lost until it is opened again.
  void dismiss(std::uint32_t host) {
    if (is_ready(host)) --ready_count_;
    hosts_[host].stage = Stage::unneeded;
    hosts_[host].lost = true;
  }
  // Nobody is on the way to it.
  bool is_unneeded(std::uint32_t host) const { return hosts_[host].stage == Stage::unneeded; }
  // False when it was lost already.
  bool lose(std::uint32_t host);

  // The host is to be opened once more: its next agent is awaited. Lost until that is ready.
  void reopen(std::uint32_t host);
  // The number of times that it was to be opened again.
  std::uint32_t opening(std::uint32_t host) const { return hosts_[host].opening; }

  // The host is one that this job needs and that has not connected yet, lost or not: who is told of
  // the end after all goes by itself.
  bool expects(std::uint32_t host) const {
    return host < hosts_.size() && hosts_[host].stage == Stage::awaited;
  }
  bool is_connected(std::uint32_t host) const { return hosts_[host].stage == Stage::connected; }
  bool is_ready(std::uint32_t host) const { return hosts_[host].stage == Stage::ready; }
  bool is_lost(std::uint32_t host) const { return hosts_[host].lost; }
  // It can be told something.
  bool hears(std::uint32_t host) const { return is_ready(host) && !is_lost(host); }
  std::uint32_t ready_count() const { return ready_count_; }

  // The free port of an agent that is ready, and the address at which other hosts reach it.
  std::uint16_t master_port(std::uint32_t host) const { return hosts_[host].info.master_port; }
  const std::string& address(std::uint32_t host) const {
    const std::string& own = hosts_[host].info.address;
    return own.empty() ? own_address_ : own;
  }
  // The address at which an agent elsewhere has reached this machine: the others use it too.
  void set_own_address(std::string address) { own_address_ = std::move(address); }

 private:
  // unneeded    awaited ──agent came──▶ connected ──said so──▶ ready
  //                ▲                        │                    │
  //                └─────────── opened again, once lost ─────────┘
  enum class Stage : std::uint8_t { unneeded, awaited, connected, ready };
  struct Host {
    Stage stage = Stage::unneeded;
    bool lost = false;  // at whatever stage
    std::uint32_t opening = 0;
    AgentReady info{};
  };

  std::vector<Host> hosts_;
  std::uint32_t ready_count_ = 0;          // lost ones too
  std::string own_address_ = "127.0.0.1";  // until somebody has come from elsewhere
};

}  // namespace hvdrun
