// The types of all messages of the hvdrun protocol, and the messages that every connection has.
// docs/protocol.md tells the same for readers; a test compares the numbers. Numbers are never
// reused. The other messages: common/wire/job_messages.h, common/wire/rendezvous_messages.h and
// common/wire/output_messages.h, all of which common/wire/messages.h includes.
//
// Three kinds of connection speak it: agent <-> coordinator and driver <-> coordinator (control),
// agent <-> viewer (output), worker <-> agent (private Unix socket of one host).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/wire/frame.h"

namespace hvdrun {

enum class MessageType : std::uint16_t {
  // every connection
  hello = 1,
  welcome = 2,
  refuse = 3,
  heartbeat = 4,
  log = 5,
  // driver -> guard, over the lease pipe
  bootstrap = 8,
  // agent <-> coordinator
  agent_ready = 16,
  launch = 17,
  rank_started = 18,
  rank_exited = 20,
  ranks_joined = 21,
  rank_left = 22,
  kill_ranks = 23,
  end_job = 24,
  peer_lost = 25,
  rank_trouble = 26,
  signal_ranks = 27,
  probe_ranks = 28,
  rank_probes = 29,
  launch_checked = 30,
  start_ranks = 31,
  // rendezvous: worker <-> agent <-> coordinator
  fence_enter = 32,
  fence_release = 33,
  fence_failed = 34,
  store_put = 35,
  store_ack = 36,
  store_get = 37,
  store_value = 38,
  // stalls: agent <-> coordinator
  rank_stalled = 39,
  survey_ranks = 40,
  rank_pictures = 41,
  // rendezvous, too
  peer_gave_up = 42,
  // elastic jobs: coordinator <-> agent
  begin_epoch = 43,
  start_slot = 44,
  end_slot = 45,
  meeting_wanted = 46,  // and on to the workers
  at_door = 47,
  slot_dying = 59,
  host_leaving = 60,
  // worker <-> agent
  worker_join = 48,
  worker_topology = 49,
  segment_get = 50,
  segment = 51,
  segment_drop = 52,
  worker_leave = 53,
  collective_failed = 54,
  worker_stall = 55,
  stall_ask = 56,
  elastic_entered = 57,  // and on to the coordinator
  peer_died = 58,
  // driver <-> coordinator
  job_progress = 65,
  job_ended = 66,
  abort_job = 67,
  host_failed = 68,
  status_query = 69,
  job_status = 70,
  rank_event = 71,
  stall_warning = 72,
  epoch_begun = 73,
  reopen_host = 74,
  hosts_listed = 75,
  slots_added = 76,
  leave_host = 79,
  // a user's command <-> driver
  hosts_order = 77,
  hosts_reply = 78,
  // agent <-> viewer
  output = 80,
  credit = 81,
  output_closed = 82,
  input = 83,
  input_credit = 84,
  input_closed = 85,
  file_folder = 86,
  file_begin = 87,
  file_data = 88,
  file_end = 89,
  file_credit = 90,
  file_kept = 91,
  file_remark = 92,
  // agent <-> driver, through the ssh channel
  relay_open = 96,
  relay_data = 97,
  relay_credit = 98,
  relay_end = 99,
  // timeline: worker -> agent -> viewer, and the clocks of agent and coordinator
  timeline_batch = 112,
  timeline_control = 113,
  clock_query = 114,
  clock_reply = 115,
  // Horovod's store: agent <-> coordinator
  horovod_ask = 128,
  horovod_reply = 129,
  horovod_follow = 130,
  horovod_unfollow = 131,
  horovod_copy = 132,
  horovod_drop = 133,
  horovod_caught_up = 134,
  horovod_taken = 135,
  horovod_notice = 136,
};

inline constexpr std::uint32_t kProtocolMagic = 0x48564452;  // "HVDR"
inline constexpr std::uint16_t kProtocolVersion = 9;

enum class Role : std::uint8_t { agent = 1, driver = 2, output = 3, worker = 4, status = 5 };

// First frame of whoever connected. The versions are the lowest and the highest it speaks.
struct Hello {
  static constexpr auto kType = MessageType::hello;
  std::uint32_t magic = kProtocolMagic;
  std::uint16_t version_min = kProtocolVersion;
  std::uint16_t version_max = kProtocolVersion;
  std::uint64_t features = 0;
  Role role{};
  std::uint32_t host_index = 0;  // agents and their output connections; 0 otherwise
  std::string job_id;            // 32 hexadecimal digits
  template <class V>
  void visit(V& v) {
    v(magic);
    v(version_min);
    v(version_max);
    v(features);
    v(role);
    v(host_index);
    v(job_id);
  }
};

struct Welcome {
  static constexpr auto kType = MessageType::welcome;
  std::uint16_t version = kProtocolVersion;
  std::uint64_t features = 0;
  template <class V>
  void visit(V& v) {
    v(version);
    v(features);
  }
};

// Last frame before the connection is closed.
struct Refuse {
  static constexpr auto kType = MessageType::refuse;
  Errc code{};
  std::string reason;
  template <class V>
  void visit(V& v) {
    v(code);
    v(reason);
  }
};

struct Heartbeat {
  static constexpr auto kType = MessageType::heartbeat;
  template <class V>
  void visit(V&) {}
};

enum class LogLevel : std::uint8_t { debug = 1, info = 2, warn = 3, error = 4 };

// A line for the user, on its way to the driver.
struct Log {
  static constexpr auto kType = MessageType::log;
  LogLevel level{};
  std::string text;
  template <class V>
  void visit(V& v) {
    v(level);
    v(text);
  }
};

// The way from an agent to another process: an inherited descriptor, or TCP addresses with TLS-PSK.
struct Endpoint {
  std::uint32_t fd = 0;                // used when addresses is empty
  std::vector<std::string> addresses;  // "ip:port" or "[ip6]:port"
  template <class V>
  void visit(V& v) {
    v(fd);
    v(addresses);
  }
};

// The ranks that get hvdrun's stdin; the others have /dev/null.
enum class InputFor : std::uint8_t { nobody = 0, one_rank = 1, all_ranks = 2 };

// --isolation: what keeps the processes of a host together besides the nested sub-reapers.
enum class Isolation : std::uint8_t { automatic = 0, cgroup = 1, pidns = 2, none = 3 };

// The message that a guard reads from its stdin before anything else. The stdin stays open: it is
// the lease.
struct Bootstrap {
  static constexpr auto kType = MessageType::bootstrap;
  std::string job_id;
  std::string secret;  // 32 bytes
  std::uint32_t host_index = 0;
  std::string host_name;  // as the user wrote it
  Endpoint control;
  Endpoint output;
  std::uint32_t lease_ms = 0;
  bool verbose = false;
  InputFor input = InputFor::nobody;
  std::uint32_t input_rank = 0;  // with one_rank
  Isolation isolation = Isolation::automatic;
  std::uint16_t first_port = 0;  // for MASTER_PORT and data connections; 0: any port
  std::uint16_t last_port = 0;
  bool relay = false;  // the driver takes both connections through the guard's stdin and stdout
  std::uint32_t dial_ms = 0;  // how long the addresses are tried
  bool encrypt_data = false;
  std::string sync_folder;  // --sync-dir, on the driver's machine; empty: none
  bool sync_apart = false;  // this host has one of its own, whose files are brought there
  template <class V>
  void visit(V& v) {
    v(job_id);
    v(secret);
    v(host_index);
    v(host_name);
    v(control);
    v(output);
    v(lease_ms);
    v(verbose);
    v(input);
    v(input_rank);
    v(isolation);
    v(first_port);
    v(last_port);
    v(relay);
    v(dial_ms);
    v(encrypt_data);
    v(sync_folder);
    v(sync_apart);
  }
};

}  // namespace hvdrun
