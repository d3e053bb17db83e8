// A thread of the library inside somebody else's process: it takes no signals, so that the
// program's handlers run on the program's own threads.
#pragma once

#include <pthread.h>
#include <signal.h>
#include <thread>
#include <utility>

namespace hvdrun {

template <class F>
std::thread quiet_thread(F&& body) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);  // inherited by the new thread
  try {
    std::thread thread(std::forward<F>(body));
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return thread;
  } catch (...) {
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw;
  }
}

}  // namespace hvdrun
