// Ranks that say what they wait for: 0 to 2 on host a, 3 to 5 on host b.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "coordinator/membership.h"
#include "coordinator/rank_survey.h"

namespace hvdrun {

struct StallFixture {
  StallFixture() {
    members.assign({{{"a", 3}, {"b", 3}}, 6});
    for (std::uint32_t rank = 0; rank < 6; ++rank) {
      members.set_pid(rank, 100 + rank);
      members.set_state(rank, RankState::started);
      members.set_state(rank, RankState::joined);
    }
  }
  // The rank answers that these wait, the oldest first.
  RankPicture& says(std::uint32_t rank, const std::vector<PendingTensor>& pending,
                    const std::string& last = "loss") {
    RankPicture& picture = ranks[rank];
    picture.probe.rank = rank;
    picture.probe.pid = 100 + rank;
    picture.probe.state = "S";
    picture.probe.wait_channel = "futex_do_wait";
    picture.command = "train";
    picture.answered = true;
    picture.report.pending = pending;
    picture.report.pending_count = pending.size();
    picture.report.last_submitted = last;
    picture.report.submitted = last.empty() ? 0 : 7;
    return picture;
  }

  Membership members;
  SurveyedRanks ranks;
};

}  // namespace hvdrun
