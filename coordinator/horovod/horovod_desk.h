// Horovod's store for members on the coordinator's own machine, at a port of it. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <boost/asio/io_context.hpp>

#include "common/base/limits.h"
#include "common/base/unique_fd.h"
#include "common/horovod/held_gets.h"
#include "common/horovod/horovod_server.h"
#include "common/host/topology.h"
#include "coordinator/horovod/horovod_store.h"

namespace hvdrun {

class HorovodDesk final : public HorovodBackend {
 public:
  using OnGathering = std::function<void(HorovodStore::Gathering who)>;

  // `on_trouble` as HorovodServer's; `on_gathering` gets every change of who has come to meet.
  HorovodDesk(boost::asio::io_context& io, UniqueFd listener, HorovodServer::OnTrouble on_trouble,
              OnGathering on_gathering, HorovodServerLimits limits = {});

  // As HorovodStore's.
  void assign(const RankTable& ranks);
  std::size_t open_connections() const { return server_.open_connections(); }

  HorovodAnswer answer(HttpRequest request, Waiter waiter) override;
  HorovodAnswer overdue(Waiter waiter) override;
  void forget(Waiter waiter) override;

 private:
  HorovodAnswer answer(HorovodRequest request, Waiter waiter);

  HorovodStore store_;
  HeldGets held_{limits::kMaxHorovodHeld};
  std::uint64_t told_gathering_ = 0;
  OnGathering on_gathering_;
  HorovodServer server_;  // goes first
};

}  // namespace hvdrun
