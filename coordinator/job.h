// The life of a job, as the coordinator sees it. Sans-I/O: frames and events in, frames out.
//
//   job.cpp         what agents and the driver say, deadlines, the verdict and the end
//   job_launch.cpp  from the first host that is ready to ranks that start
//   job_elastic.cpp ranks that are lost while the job goes on, and new epochs
//   job_hosts.cpp   hosts that are lost, and such as come and go
//   job_horovod.cpp elastic programs of Horovod, and what they say in its protocol
//   job_init.cpp    who waits for whom in hvd::init, and among Horovod's members
//   job_stall.cpp   who waits for whom in an operation; the surveys of both
//   job_status.cpp  what a job says of itself to those who ask
//
// It holds the parts together and decides nothing that one of them can decide. Membership knows who
// is where, HostRoster which hosts have come, HostChecks whether they find their programs. InitGate
// knows who is in hvd::init, StallInspector what waits, RankSurvey what the ranks do meanwhile.
// FirstCause judges who is to blame, and Store keeps what ranks put there.
//
//   waiting ──all hosts ready──▶ running ──last rank exited──▶ ended
//      │                            │ first failure, abort, lost host
//      └──lost host, time-out──▶ ending ──all ranks accounted for──▶ ended
//
// The first failure decides the verdict; whatever ends afterwards was ended because of it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/wire/messages.h"
#include "coordinator/elastic/elastic_job.h"
#include "coordinator/first_cause.h"
#include "coordinator/horovod/horovod_members.h"
#include "coordinator/horovod/horovod_store.h"
#include "coordinator/host_checks.h"
#include "coordinator/host_roster.h"
#include "coordinator/init_gate.h"
#include "coordinator/init_watch.h"
#include "coordinator/job_spec.h"
#include "coordinator/membership.h"
#include "coordinator/rank_survey.h"
#include "coordinator/stall_inspector.h"
#include "coordinator/store.h"

namespace hvdrun {

enum class JobState : std::uint8_t { waiting, running, ending, ended };
const char* name_of(JobState state);

class Job {
 public:
  struct Action {
    enum class Target : std::uint8_t { agent, driver } target{};
    std::uint32_t host = 0;  // of an agent
    std::string frame;
    // The rest of it, the same for many: a launch has the user's whole environment.
    std::shared_ptr<const std::string> rest;
  };

  Job(JobSpec spec, TimePoint now);

  // Each takes one event and appends what is to be sent. A frame that makes no sense is
  // answered by a fault: the connection it came over is not to be trusted any more.
  Errc agent_frame(std::uint32_t host, const Frame& frame, TimePoint now);
  void agent_lost(std::uint32_t host, const std::string& why, TimePoint now);
  Errc driver_frame(const Frame& frame, TimePoint now);
  void driver_lost(TimePoint now);
  void tick(TimePoint now);

  std::vector<Action> take_actions() { return std::exchange(actions_, {}); }
  // Hosts that are opened again: the agents of their last openings are to hear nothing more, and so
  // end what they have started. Before the actions.
  std::vector<std::uint32_t> take_given_up_agents() { return std::exchange(given_up_agents_, {}); }
  // When tick() wants to be called at the latest.
  std::optional<TimePoint> next_deadline() const;

  JobState state() const { return state_; }
  const JobEnded& verdict() const { return verdict_; }
  const Membership& membership() const { return membership_; }
  const JobSpec& spec() const { return spec_; }
  // Where every rank stands; what its host says of the process is not in it.
  JobStatus status(TimePoint now) const;
  // The host is one that this job needs and that has not connected yet.
  bool expects_agent(std::uint32_t host) const { return hosts_.expects(host); }
  // Horovod's own members meet without libhvd: the ranks `waiting` are there, the ranks `missing`
  // are not yet. Both are empty when all are, or nobody is.
  void horovod_gathering(std::vector<std::uint32_t> waiting, std::vector<std::uint32_t> missing,
                         TimePoint now);
  // An elastic program of Horovod. What a rank on `host` says of itself, under HOST:LOCAL_RANK,
  // when it enters hvd.elastic.run; that it waits for its next place; that all have met.
  void horovod_entered(std::uint32_t host, const std::string& member, std::string_view value,
                       TimePoint now);
  void horovod_at_door(std::uint32_t host, const std::string& member, TimePoint now);
  void horovod_met(TimePoint now);
  // Somebody on `host` comes to meet the others as `rank`; `has_come`: in this epoch one has
  // before.
  enum class Arrival : std::uint8_t {
    member,
    newcomer,  // it waits for the next epoch
    nobody,    // that can be meant
  };
  Arrival horovod_arrives(std::uint32_t host, std::uint32_t rank, bool has_come, TimePoint now);
  // Whoever asks for its place is to wait for the next epoch.
  bool waits_for_horovod_places() const;
  // The places of an epoch that has just begun, by rank; none: there is none. After the actions.
  struct HorovodEpoch {
    std::vector<HorovodSlot> places;
    HorovodStore::RanksByName by_last_name;  // ranks of who was a member before
  };
  std::optional<HorovodEpoch> take_horovod_epoch() {
    return std::exchange(horovod_epoch_, std::nullopt);
  }
  // Processes that have ended before their epoch: host, and the rank that they came as. Before
  // take_horovod_epoch().
  std::vector<std::pair<std::uint32_t, std::uint32_t>> take_horovod_gone() {
    return std::exchange(horovod_gone_, {});
  }
  void agent_connected(std::uint32_t host) { hosts_.connected(host); }
  // As HostRoster's.
  void set_own_address(std::string address) { hosts_.set_own_address(std::move(address)); }

 private:
  Errc on_agent_ready(std::uint32_t host, const Frame& frame, TimePoint now);
  Errc on_launch_checked(std::uint32_t host, const Frame& frame, TimePoint now);
  Errc on_rank_started(std::uint32_t host, const Frame& frame);
  Errc on_rank_exited(std::uint32_t host, const Frame& frame, TimePoint now);
  Errc on_ranks_joined(std::uint32_t host, const Frame& frame, TimePoint now);
  Errc on_rank_left(std::uint32_t host, const Frame& frame, TimePoint now);
  Errc on_rank_trouble(std::uint32_t host, const Frame& frame, TimePoint now);
  Errc on_rank_stalled(std::uint32_t host, const Frame& frame, TimePoint now);
  Errc on_rank_pictures(std::uint32_t host, const Frame& frame, TimePoint now);
  Errc on_fence_enter(std::uint32_t host, const Frame& frame, TimePoint now);
  Errc on_elastic_entered(std::uint32_t host, const Frame& frame, TimePoint now);
  Errc on_at_door(std::uint32_t host, const Frame& frame, TimePoint now);
  Errc on_slot_dying(std::uint32_t host, const Frame& frame, TimePoint now);
  Errc on_store_put(std::uint32_t host, const Frame& frame);
  Errc on_store_get(std::uint32_t host, const Frame& frame, TimePoint now);

  // All hosts are ready: those that look at their programs first are told to.
  void check_or_launch(TimePoint now);
  void launch(TimePoint now);
  enum class LaunchOf : std::uint8_t {
    hosts_that_check,
    other_hosts,
    returned_host,
  };
  void send_launches(LaunchOf what, std::uint32_t returned = 0);
  // A loss does not end the job.
  bool goes_on() const { return elastic_ && elastic_->goes_on() && state_ == JobState::running; }
  void slot_ended(const RankExited& end, TimePoint now);
  void host_ended(std::uint32_t host, const JobEnded& verdict, TimePoint now);
  void on_host_failed(const HostFailed& message, TimePoint now);
  // A lost host is opened again, and its slots are started again.
  void reopen(std::uint32_t host);
  void open(std::uint32_t host, bool at_once);
  void dismiss(std::uint32_t host);
  void host_returned(std::uint32_t host, TimePoint now);
  void leave_hosts(TimePoint now);
  Errc on_host_leaving(std::uint32_t host, TimePoint now);
  Errc on_hosts_listed(const Frame& frame, TimePoint now);
  void list_hosts(TimePoint now);
  // Hosts that have slots to start and are not on their way are opened; those that have none left
  // are told to go.
  void open_and_dismiss();
  bool reopens(std::uint32_t host) const {
    return host < spec_.elsewhere.size() && spec_.elsewhere[host];
  }
  // Whoever waits for the slot's rank, in an operation or in hvd::init, is to wait no more.
  void tell_members_lost(std::uint32_t slot, const std::string& reason, TimePoint now);
  void begin_epoch(Assignment dealt, TimePoint now);
  void send_notice();
  void horovod_ended(std::uint32_t slot);
  // The place that the slot's process is told; without a host: none.
  HorovodSlot promise_to(std::uint32_t slot, const Assignment* promised);
  void end_slot(std::uint32_t slot);
  void retire_slot(std::uint32_t slot);
  // The slot is of the epoch, or was until its process died.
  bool was_member(std::uint32_t slot) const;
  void carry_out(TimePoint now);
  // Sets the verdict and starts the kill ladder everywhere, unless a first cause is known already.
  void fail(JobEnded verdict, TimePoint now);
  void fail_start(TimePoint now);
  void lose_slow_hosts(TimePoint now);
  void abort(std::uint32_t signal, TimePoint now);
  void end_if_done(TimePoint now);
  bool was_launched() const { return launched_at_.has_value(); }
  // Before the launch: since the coordinator started.
  std::uint64_t ms_since_launch(TimePoint now) const {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::milliseconds>(now - launched_at_.value_or(started_))
            .count());
  }
  void fail_init_if_hopeless(TimePoint now);
  void fail_gathering_if_hopeless(TimePoint now);
  void tick_init_watch(InitWatch& watch, TimePoint now);
  const InitWatch* init_of(std::uint32_t rank, TimePoint now);
  // Asks the hosts what their ranks do.
  void open_survey(RankSurvey::About about, TimePoint now);
  // Says what a survey has found, and begins the next.
  void look_into_stalls(TimePoint now);
  void judge_stall(const SurveyedRanks& ranks, TimePoint now);
  void end_hanging(const std::vector<std::uint32_t>& ranks, const std::string& why);
  void describe_missing(const InitWatch& init, const SurveyedRanks& ranks);
  void judge_init(const SurveyedRanks& ranks, TimePoint now);
  void set_state(std::uint32_t rank, RankState state);
  // An agent may wait for a file system that does not answer, and say no word more.
  bool starts_ranks() const { return membership_.count(RankState::assigned) > 0; }
  void tell_peers_lost(std::uint32_t slot, const std::string& reason);
  void tell_peers_given_up(const RankTrouble& trouble);
  void send_answers(const std::vector<Store::Answer>& answers);
  void send_progress();
  std::string host_name(std::uint32_t host) const { return membership_.hosts()[host].name; }

  template <class M>
  void to_agent(std::uint32_t host, const M& message) {
    actions_.push_back(
        {Action::Target::agent, host, encode_frame(message, membership_.epoch()), nullptr});
  }
  template <class M>
  void to_agents(const M& message) {
    for (std::uint32_t host = 0; host < hosts_.size(); ++host)
      if (hosts_.hears(host)) to_agent(host, message);
  }
  template <class M>
  void to_driver(const M& message) {
    actions_.push_back(
        {Action::Target::driver, 0, encode_frame(message, membership_.epoch()), nullptr});
  }

  JobSpec spec_;
  Membership membership_;
  HostRoster hosts_;
  HostChecks checks_;
  Store store_;
  InitGate init_;            // of libhvd
  InitWatch horovod_watch_;  // of Horovod's members
  StallInspector stall_inspector_;
  RankSurvey survey_;
  FirstCause causes_;
  std::optional<ElasticJob> elastic_;  // none without --min-np
  HorovodMembers horovod_members_;
  std::optional<HorovodEpoch> horovod_epoch_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> horovod_gone_;
  bool notice_waits_ = false;              // until rank 0 has said where it is told
  std::vector<ListedHost> listed_;         // the hosts that the job may use; empty: all
  std::set<std::uint32_t> leaving_hosts_;  // told to go before all ranks went on
  std::set<std::uint32_t> to_end_;      // hosts whose ranks are not waited for, once listed_ counts
  std::optional<JobEnded> first_loss_;  // since the epoch's ranks have met
  std::set<std::uint32_t> given_up_;    // process sets; the hosts have been told
  std::vector<Action> actions_;
  std::vector<std::uint32_t> given_up_agents_;
  // MASTER_ADDR and MASTER_PORT, as they were at the start; empty before.
  std::string master_addr_;
  std::uint16_t master_port_ = 0;
  JobState state_ = JobState::waiting;
  JobEnded verdict_;
  TimePoint started_;  // the coordinator
  std::optional<TimePoint> launched_at_;
  TimePoint deadline_;  // of the state: all hosts ready, all ranks started, or all ranks ended
};

}  // namespace hvdrun
