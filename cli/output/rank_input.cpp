#include "cli/output/rank_input.h"

#include <unistd.h>
#include <utility>
#include <vector>

#include "cli/output/unread_input.h"

namespace hvdrun {

RankInput::RankInput(boost::asio::io_context& io, const StdinTo& to,
                     std::shared_ptr<const RankTable> table, std::function<void(const Input&)> send,
                     std::function<void(const std::string&)> say)
    : table_(std::move(table)), say_(std::move(say)), may_hint_(!to.given) {
  std::vector<std::uint32_t> ranks;
  if (to.who == StdinTo::Who::one) ranks = {to.rank};
  if (to.who == StdinTo::Who::all)
    for (const RankPlace& place : table_->places()) ranks.push_back(place.rank);
  hint();
  if (ranks.empty()) return;
  source_.emplace(io, STDIN_FILENO, ranks, std::move(send), [this](const std::string& trouble) {
    say_(trouble + "; the ranks read the end of it");
  });
}

void RankInput::hint() {
  if (!may_hint_ || !has_unread_input(STDIN_FILENO)) return;
  may_hint_ = false;
  say_(
      "stdin has input, and no rank gets it: --stdin 0 gives it to rank 0, --stdin all to every "
      "rank; --stdin none says that this is meant");
}

void RankInput::forget(std::uint32_t host) {
  if (!source_) return;
  for (const RankPlace& place : table_->places())
    if (place.host == host) source_->closed(place.rank);
}

}  // namespace hvdrun
