#include "cli/run/signal_watch.h"

#include <algorithm>
#include <signal.h>
#include <utility>

namespace hvdrun {

SignalWatch::SignalWatch(boost::asio::io_context& io, OnSignal on_signal)
    : signals_(io), on_signal_(std::move(on_signal)) {
  for (const HandledSignal& row : kSignalTable) {
    struct sigaction now {};
    if (::sigaction(row.signal, nullptr, &now) == 0 && now.sa_handler != SIG_IGN)
      signals_.add(row.signal);
  }
  wait();
}

void SignalWatch::wait() {
  signals_.async_wait([this](const auto& ec, int signal) {
    if (ec) return;
    const auto row = std::find_if(kSignalTable.begin(), kSignalTable.end(),
                                  [signal](const HandledSignal& r) { return r.signal == signal; });
    on_signal_(row == kSignalTable.end() ? SignalAction::end : row->action, signal);
    wait();
  });
}

}  // namespace hvdrun
