// A program one rank of which does not get through hvd::init. The first argument says which rank,
// the second what it does: exit (with 0), sleep, stop (itself) before hvd::init; meet, stop itself
// when it has joined and not met the others; deaf: no rank takes connections of other hosts. With a
// third, "again", all of that happens in the second hvd::init of the program.
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <signal.h>
#include <string>
#include <sys/socket.h>
#include <unistd.h>

#include <dlfcn.h>
#include <hvd/hvd.h>

namespace {

std::atomic<bool> stops_as_it_listens{false};
std::atomic<bool> is_deaf{false};

bool is_unix(int socket) {
  int domain = 0;
  socklen_t bytes = sizeof domain;
  return ::getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &domain, &bytes) != 0 || domain == AF_UNIX;
}

template <class Function>
Function real(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

// In place of the C library's: what libhvd calls.
extern "C" int listen(int socket, int backlog) noexcept {
  if (stops_as_it_listens && !is_unix(socket)) ::raise(SIGSTOP);
  return real<int (*)(int, int)>("listen")(socket, backlog);
}

extern "C" int accept4(int socket, sockaddr* address, socklen_t* bytes, int flags) {
  const int taken =
      real<int (*)(int, sockaddr*, socklen_t*, int)>("accept4")(socket, address, bytes, flags);
  if (taken < 0 || !is_deaf || is_unix(socket)) return taken;
  // It stays open, as with a machine between the hosts that keeps what it cannot pass on.
  errno = EAGAIN;
  return -1;
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const std::string what = argv[2];
  try {
    if (argc > 3) {
      hvd::init();
      hvd::shutdown();
    }
    is_deaf = what == "deaf";
    if (std::strcmp(std::getenv("HVD_RANK"), argv[1]) == 0) {
      if (what == "exit") return 0;
      if (what == "sleep") ::pause();
      if (what == "stop") ::raise(SIGSTOP);
      stops_as_it_listens = what == "meet";
    }
    hvd::init();
    hvd::shutdown();
    std::puts("is through");
    return 0;
  } catch (const hvd::Error& error) {
    std::printf("hvd::Error: %s\n", error.what());
    return 9;
  }
}
