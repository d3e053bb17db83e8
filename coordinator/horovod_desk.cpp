#include "coordinator/horovod_desk.h"

#include <utility>

namespace hvdrun {

HorovodDesk::HorovodDesk(boost::asio::io_context& io, UniqueFd listener,
                         HorovodServer::OnTrouble on_trouble, OnGathering on_gathering,
                         HorovodServerLimits limits)
    : on_gathering_(std::move(on_gathering)),
      server_(io, std::move(listener), *this, std::move(on_trouble), limits) {}

void HorovodDesk::assign(const std::vector<HostSlots>& hosts,
                         const std::vector<RankPlace>& places) {
  for (HorovodStore::Late& late : store_.assign(hosts, places))
    server_.answer(late.waiter, std::move(late.answer));
}

HorovodAnswer HorovodDesk::answer(HttpRequest request, Waiter waiter) {
  HorovodAnswer answer = store_.answer(std::move(request), waiter);
  const std::uint64_t version = store_.gathering_version();
  if (std::exchange(told_gathering_, version) != version) on_gathering_(store_.gathering());
  return answer;
}

}  // namespace hvdrun
