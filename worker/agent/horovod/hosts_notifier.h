// Tells a rank of an elastic Horovod program that hosts have come or gone, at the port that its
// library has opened for that. It is told until this is stopped: a rank that has taken it may have
// dropped it, as Horovod's library forgets what came while it met the others. By its number it is
// heeded once. One thread.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include <boost/asio/io_context.hpp>

#include "common/wire/horovod_messages.h"

namespace hvdrun {

class HostsNotifier {
 public:
  // Each address has so long to take the notice; then, and when all have failed, there is a pause.
  struct Times {
    std::chrono::milliseconds limit{5'000};
    std::chrono::milliseconds pause{1'000};
  };
  // Gets the reason why the first round of a notice has failed, in words for the user.
  using OnTrouble = std::function<void(const std::string& trouble)>;

  HostsNotifier(boost::asio::io_context& io, OnTrouble on_trouble);
  HostsNotifier(boost::asio::io_context& io, OnTrouble on_trouble, Times times);
  ~HostsNotifier();
  HostsNotifier(const HostsNotifier&) = delete;
  HostsNotifier& operator=(const HostsNotifier&) = delete;

  // In place of the last one, if that has not been taken.
  void tell(HorovodNotice notice);
  void stop();
  // No rank has taken it yet.
  bool is_busy() const;

 private:
  class Telling;

  boost::asio::io_context& io_;
  OnTrouble on_trouble_;
  Times times_;
  std::shared_ptr<Telling> telling_;
};

}  // namespace hvdrun
