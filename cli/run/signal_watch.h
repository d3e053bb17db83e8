// Waits for the signals of kSignalTable that were not ignored when hvdrun was started.
#pragma once

#include <functional>

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>

#include "cli/run/signal_table.h"

namespace hvdrun {

class SignalWatch {
 public:
  using OnSignal = std::function<void(SignalAction action, int signal)>;

  SignalWatch(boost::asio::io_context& io, OnSignal on_signal);

 private:
  void wait();

  boost::asio::signal_set signals_;
  OnSignal on_signal_;
};

}  // namespace hvdrun
