// An elastic job: ranks are lost, the others go on, and the lost ones are started again. Decides
// when the next epoch begins, and with whom. Sans-I/O: events in, decisions out.
//
//   open ──a member is lost, or comes to its door──▶ gathering ──all are at their doors──▶ meeting
//    ▲                                                  │  ▲                                 │  │
//    │                                  too few ranks   ▼  │ a slot has come                 │  │
//    │                                                waiting                        lost one   │
//    └──────────────────────────── the fence of hvd::init opens ────────────────────────────────┘
//
// Members that are away too long are killed, and are lost then. Newcomers wait until the members
// have met; then these are asked to come to their doors at their next commit. So are the members
// when some of them are to leave because their hosts are not listed any more; these stay for as
// long as the others would be too few without them.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/time_point.h"
#include "common/host/topology.h"
#include "coordinator/elastic/rank_dealer.h"
#include "coordinator/elastic/slot_record.h"

namespace hvdrun {

class ElasticJob {
 public:
  struct Decision {
    enum class What : std::uint8_t {
      add_slot,     // the table has one more slot, on `host`
      start_slot,   // start the slot's program again
      end_slot,     // kill what runs there
      retire_slot,  // ask what runs there to end: it is not needed, or of no use
      open_hosts,   // some slots may be away, and others not wanted
      begin_epoch,  // with the ranks of `dealt`; all of them are at their doors
      ask_meeting,  // the members are to come to their doors
      say,          // `text`, to the user
      too_few,      // the job ends for lack of ranks; `text` says whose
      too_many,     // the ranks may not meet anew so often; `text` says for what they were to
      all_lost,     // the job ends; the first cause is `slot`'s, if that was not told before
      finished,     // the job ends well; whoever still waits is not needed
    } what{};
    std::uint32_t slot = 0;
    std::uint32_t host = 0;
    Assignment dealt = {};
    std::shared_ptr<const Assignment> promised = {};  // of start_slot: the epoch to begin in
    std::string text = {};
  };

  // For a rank that has said goodbye to come back after all, or to end.
  static constexpr std::chrono::seconds kGoodbye{1};
  // Newcomers within this time are let in together.
  static constexpr std::chrono::seconds kTogether{1};
  static constexpr std::chrono::seconds kLeavingPause{60};
  // For a process that starts, until others of its epoch are started again without it
  // (follow_horovod).
  static constexpr std::chrono::seconds kSlowStart{30};
  // With more of them in one job nobody is refused for another one.
  static constexpr std::size_t kMostLayouts = 16;
  // Between two lines on who is waited for.
  static constexpr std::chrono::seconds kNews{10};

  // `table` has the ranks of the first epoch, which are the slots. With fewer ranks than `min_np`
  // the job waits. `timeout` is for how long anybody is waited for: a slot's next process, and a
  // member that does not come to its door. For that one `stall_shutdown` holds where it is less,
  // and not 0.
  ElasticJob(RankTable table, std::uint32_t min_np, std::chrono::milliseconds timeout,
             std::chrono::milliseconds stall_shutdown = {});

  // A host that the job may use.
  struct Host {
    std::uint32_t index = 0;  // in the table
    std::uint32_t slots = 0;
  };
  // Hosts come and go: there may be more than there are now. At most `max_np` ranks.
  void hosts_change(std::uint32_t max_np);
  // The ranks are a Horovod program's, which has rules of its own (elastic_horovod.cpp). A process
  // has the rank of its first epoch from its start on, and a loss leaves out all of its host.
  // `hosts` are the names of the hosts, as Horovod has them, by slot.
  void follow_horovod(std::vector<std::string> hosts);
  bool follows_horovod() const { return horovod_.has_value(); }
  // A slot that is left out may come back: after `first` for the first time, each further time
  // after twice as long, but never more than `most`.
  void cool_down(std::chrono::seconds first, std::chrono::seconds most) {
    cooldown_ = {first, most};
  }
  // So often an epoch may follow the first.
  void limit_resets(std::uint32_t resets) { reset_limit_ = resets; }
  // The table has one more host, which nobody has opened yet.
  void add_host(HostSlots host);
  // From now on the job may use these, the first ones first, and no others. Who is there already
  // stays before anybody new is started.
  void list_hosts(std::vector<Host> hosts, TimePoint now);
  // It cannot start anything any more, and has no slot that could be missed.
  void host_gone(std::uint32_t host);
  // Its machine goes away soon: its members are to leave when the others are enough without them.
  // It may be used again kLeavingPause after it has gone, as the next one may have its name.
  void host_leaves(std::uint32_t host, TimePoint now);
  // Its members that are to leave are not waited for: they end now, and are lost.
  void end_host(std::uint32_t host);

  // A member's program says that it goes on when others are lost, with a state of this layout.
  // Empty: not known.
  void entered(std::uint32_t slot, const std::string& layout = {});
  // All members have said so: from here on a loss is no end. Newcomers are not asked.
  bool goes_on() const { return goes_on_; }

  // A member is dead, and it is not known yet how its process ends: the others need not wait for
  // that. lost() follows.
  void dying(std::uint32_t slot, TimePoint now);
  // The slot's process has ended, and not well. `how`: "was killed by signal 9 (SIGKILL)".
  void lost(std::uint32_t slot, const std::string& how, TimePoint now);
  // It has ended with 0 after its goodbye.
  void done(std::uint32_t slot, TimePoint now);
  // Goodbye: it needs nobody any more.
  void leaves(std::uint32_t slot, TimePoint now);
  // It waits at its door for the next epoch, or gave that up. A new process with a layout that no
  // member has told of is ended, and nobody meets for it.
  void at_door(std::uint32_t slot, bool waits, TimePoint now, const std::string& layout = {});
  // These slots are lost, unless done, for `why`: "host b was lost". `may_return`: they are away
  // then, and are started again once the host is back, unless they have failed too often.
  void host_lost(const std::vector<std::uint32_t>& slots, const std::string& why, bool may_return,
                 TimePoint now);
  // The host is back: those of its slots that are away are started again.
  void host_back(std::uint32_t host, TimePoint now);
  // All of the epoch have met in hvd::init. False: it had been given up.
  bool opened(TimePoint now);
  void tick(TimePoint now);

  std::vector<Decision> take_decisions() { return std::exchange(decisions_, {}); }
  std::optional<TimePoint> next_deadline() const {
    if (!deadline_) deadline_ = find_deadline();
    return *deadline_;
  }

  std::uint32_t slots() const { return table_.size(); }
  SlotState state_of(std::uint32_t slot) const { return slots_[slot].state; }
  std::uint32_t start_of(std::uint32_t slot) const { return slots_[slot].start(); }
  // The ranks of the epoch have met, and nobody is missing yet.
  bool is_open() const { return phase_ == Phase::open; }
  // They are about to meet.
  bool is_meeting() const { return phase_ == Phase::meeting; }
  // It has been decided how it ends.
  bool is_over() const { return phase_ == Phase::over; }

 private:
  enum class Phase : std::uint8_t { open, gathering, waiting, meeting, over };
  using What = Decision::What;

  // The slots that the job is to have, of those that it may.
  std::vector<bool> choose(TimePoint now);
  void choose_and_want(TimePoint now);
  void add_slot(std::uint32_t host, TimePoint now);
  void want(std::uint32_t slot, bool wanted, TimePoint now);
  // So many ranks at least; those that are done are not missed.
  std::size_t needed() const;
  // Members that are to leave and can be spared, with so many newcomers.
  bool may_leave(std::size_t newcomers) const;
  // Members without those that leave then.
  std::vector<std::uint32_t> staying(std::size_t newcomers) const;
  // Those at their doors who can be let in.
  std::vector<std::uint32_t> let_in() const;
  // As many of the newcomers as there is room for.
  std::vector<std::uint32_t> with_room(std::vector<std::uint32_t> newcomers) const;
  void start_slots(TimePoint now);
  void start_slot(std::uint32_t slot, TimePoint now);
  // Slots that are left out and whose time has come.
  void end_cooldowns(TimePoint now);
  void end_pauses_of_hosts(TimePoint now);
  // It has just been left out.
  void begin_cooldown(std::uint32_t slot, TimePoint now);
  // elastic_horovod.cpp
  Assignment deal_with(const std::vector<std::uint32_t>& newcomers) const;
  void start_as_promised(const std::vector<std::uint32_t>& slots, TimePoint now);
  std::vector<std::uint32_t> let_in_as_promised() const;
  bool can_begin(std::size_t ranks, const std::vector<std::uint32_t>& newcomers) const;
  bool may_still_fit(const Assignment& promised) const;
  void restart_misfits(TimePoint now);
  // True: members were among them.
  bool leave_out_host_of(std::uint32_t slot, TimePoint now);
  bool is_left_out(std::uint32_t host) const;
  std::optional<TimePoint> next_horovod_deadline() const;
  std::optional<TimePoint> find_deadline() const;
  bool is_there(std::uint32_t slot) const;
  std::uint32_t count(SlotState state) const;
  std::vector<std::uint32_t> in_state(SlotState state) const;
  void lose(std::uint32_t slot, TimePoint now);
  // Everything that follows from what is known now.
  void proceed(TimePoint now);
  // True: a member is known that has not come to its door, so nothing follows from another's
  // coming. With thousands of members that is worth knowing before all of them are looked at.
  bool somebody_is_missing() const;
  void gather(TimePoint now);
  // For whoever is waited for.
  void start_clock(TimePoint now, std::chrono::milliseconds limit);
  // Members that are at their doors again after their goodbye, when no others are left.
  std::vector<std::uint32_t> take_back();
  void begin_epoch();
  // Without members.
  void end();
  void look_for_late_members(const std::vector<std::uint32_t>& members, TimePoint now);
  // The members are to meet, for newcomers or to leave some; not yet, if more newcomers may come.
  void ask_when_it_is_time(std::size_t newcomers, TimePoint now);
  void wait_for_more(std::size_t ranks, TimePoint now);
  // "rank 3", or of a slot without a rank "the new process of slot 3".
  std::string name_of(std::uint32_t slot) const;
  void decide(Decision decision) { decisions_.push_back(std::move(decision)); }
  void say(std::string text) { decide({.what = What::say, .text = std::move(text)}); }
  bool knows(const std::string& layout) const;
  std::string missing_text() const;
  std::string what_follows(std::uint32_t slot, TimePoint now) const;

  struct HostRecord {
    bool is_there = true;  // its agent can start something
    bool lost_for_good{};  // it is not opened again
    // It leaves, or has left, and is not used until then; the end of time: it is still there.
    std::optional<TimePoint> leaves_until = {};
  };
  struct HorovodRule {
    std::vector<std::string> hosts;     // by slot
    std::optional<TimePoint> start_at;  // of slots that wait for others to start with
  };
  struct Cooldown {
    std::chrono::seconds first{};
    std::chrono::seconds most{};
  };

  RankTable table_;
  std::vector<HostRecord> hosts_;  // by index
  std::vector<Host> listed_;
  std::vector<SlotRecord> slots_;
  std::vector<std::uint32_t> order_;  // members by rank
  std::vector<bool> entered_;
  std::vector<std::string> layouts_;  // that members have told, kMostLayouts at most
  std::vector<Decision> decisions_;
  std::string last_change_;  // what the ranks meet anew for
  std::chrono::milliseconds timeout_;
  std::chrono::milliseconds late_after_;  // a member
  std::optional<TimePoint> ask_at_;       // at the latest, since somebody is at their door
  TimePoint last_event_{};
  mutable std::optional<std::optional<TimePoint>> deadline_;  // none: it is not known
  std::uint32_t missing_ = 0;  // a member that had not come when all were looked at last
  TimePoint wait_until_{};     // of gathering, and anew of waiting
  TimePoint next_news_{};
  TimePoint goodbyes_until_{};
  std::optional<std::uint32_t> max_np_;  // none: the hosts are as they are
  std::optional<std::uint32_t> reset_limit_;
  std::optional<HorovodRule> horovod_;
  std::optional<Cooldown> cooldown_;
  std::optional<std::uint32_t> first_lost_;  // since the last epoch was open
  std::uint32_t min_np_;
  std::uint32_t resets_ = 0;
  Phase phase_ = Phase::meeting;  // the first epoch's
  bool goes_on_ = false;
  bool choose_again_ = false;  // a slot has been left out, or ranks have come back
  bool missed_ = false;        // somebody has been listed while the job seemed to end
  bool asked_ = false;         // the members of this epoch, to come to their doors
  bool ended_late_ = false;    // members that were too late have been killed
  bool waits_for_goodbyes_ = false;
};

}  // namespace hvdrun
