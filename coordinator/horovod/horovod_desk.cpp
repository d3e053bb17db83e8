#include "coordinator/horovod/horovod_desk.h"

#include <utility>

namespace hvdrun {

HorovodDesk::HorovodDesk(boost::asio::io_context& io, UniqueFd listener,
                         HorovodServer::OnTrouble on_trouble, OnGathering on_gathering,
                         HorovodServerLimits limits)
    : on_gathering_(std::move(on_gathering)),
      server_(io, std::move(listener), *this, std::move(on_trouble), limits) {}

void HorovodDesk::assign(const RankTable& ranks) {
  for (HorovodStore::Late& late : store_.assign(members_of(ranks)))
    server_.answer(late.waiter, std::move(late.answer));
}

HorovodAnswer HorovodDesk::answer(HttpRequest http, Waiter waiter) {
  HorovodRequest request;
  const int fault = store_.read(std::move(http), request);
  return fault != 0 ? HorovodAnswer{fault, nullptr} : answer(std::move(request), waiter);
}

HorovodAnswer HorovodDesk::overdue(Waiter waiter) {
  return {held_.forget(waiter) ? 404 : 0, nullptr};
}

void HorovodDesk::forget(Waiter waiter) {
  held_.forget(waiter);
  store_.forget(waiter);
}

HorovodAnswer HorovodDesk::answer(HorovodRequest request, Waiter waiter) {
  const HorovodVerb verb = request.verb;
  const std::string scope = request.scope;
  const std::string key = request.key;
  HorovodAnswer answer = store_.answer(std::move(request), waiter);
  if (verb == HorovodVerb::get && answer.status == 404 && held_.hold(waiter, scope, key)) return {};
  if (verb == HorovodVerb::put && answer.status == 200)
    for (const Waiter other : held_.take(scope, key))
      server_.answer_soon(other, {200, store_.find(scope, key)->value});
  const std::uint64_t version = store_.gathering_version();
  if (std::exchange(told_gathering_, version) != version) on_gathering_(store_.gathering());
  return answer;
}

}  // namespace hvdrun
