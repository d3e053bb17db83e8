// link_shaper SPACE1:DEVICE SPACE2:DEVICE DELAY_MS LOSS_PERCENT MBIT: a cable between two network
// name spaces that is long, bad or slow, each way alike, for kernels without netem. Makes a TAP
// device at each end, says "ready", and carries frames until it is killed; then they are gone.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <random>
#include <sched.h>
#include <string>
#include <sys/ioctl.h>
#include <unistd.h>

#include <net/if.h>
#include <string.h>

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kLargestFrame = 70'000;            // with offloads, a frame is many packets
constexpr auto kQueue = std::chrono::milliseconds(200);  // what a slow cable holds before it drops

struct Settings {
  std::chrono::milliseconds delay{};
  double loss = 0;          // 0 to 1
  double bytes_per_ms = 0;  // 0: no limit
};

struct Frame {
  Clock::time_point due;
  std::string bytes;
};

// Frames on their way from one end to the other.
struct Direction {
  int from = -1;
  int to = -1;
  std::deque<Frame> frames = {};
  Clock::time_point busy_until = {};
};

int open_tap(const std::string& end) {
  const auto colon = end.find(':');
  const std::string space = "/run/netns/" + end.substr(0, colon);
  const int own = ::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
  const int there = ::open(space.c_str(), O_RDONLY | O_CLOEXEC);
  const int tap = ::setns(there, CLONE_NEWNET) == 0
                      ? ::open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC)
                      : -1;
  ifreq request{};
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  ::strncpy(request.ifr_name, end.substr(colon + 1).c_str(), IFNAMSIZ - 1);
  const bool made = tap >= 0 && ::ioctl(tap, TUNSETIFF, &request) == 0;
  if (!made || ::setns(own, CLONE_NEWNET) != 0) {
    std::perror(end.c_str());
    std::exit(1);
  }
  ::close(own);
  ::close(there);
  return tap;
}

void take_in(Direction& way, const Settings& settings, std::mt19937& random) {
  char buffer[kLargestFrame];
  ssize_t size = 0;
  while ((size = ::read(way.from, buffer, sizeof buffer)) > 0) {
    if (std::uniform_real_distribution<>(0, 1)(random) < settings.loss) continue;
    const auto now = Clock::now();
    auto sent = now;
    if (settings.bytes_per_ms > 0) {
      way.busy_until = std::max(way.busy_until, now);
      if (way.busy_until - now > kQueue) continue;
      const std::chrono::duration<double, std::milli> time(static_cast<double>(size) /
                                                           settings.bytes_per_ms);
      way.busy_until += std::chrono::duration_cast<Clock::duration>(time);
      sent = way.busy_until;
    }
    way.frames.push_back({sent + settings.delay, {buffer, static_cast<std::size_t>(size)}});
  }
}

// Milliseconds until the next frame is due; -1: there is none.
int put_out(Direction& way) {
  const auto now = Clock::now();
  for (; !way.frames.empty() && way.frames.front().due <= now; way.frames.pop_front())
    if (::write(way.to, way.frames.front().bytes.data(), way.frames.front().bytes.size()) < 0 &&
        errno != EAGAIN && errno != EIO)  // EIO: the device is not up yet
      std::perror("link_shaper");
  if (way.frames.empty()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(way.frames.front().due - now);
  return static_cast<int>(left.count());
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) return 64;
  Settings settings;
  settings.delay = std::chrono::milliseconds(std::atoi(argv[3]));
  settings.loss = std::atof(argv[4]) / 100;
  settings.bytes_per_ms = std::atof(argv[5]) * 1e6 / 8 / 1e3;
  std::mt19937 random(1);
  const int near = open_tap(argv[1]);
  const int far = open_tap(argv[2]);
  Direction ways[] = {{near, far}, {far, near}};
  std::puts("made");
  std::fflush(stdout);
  for (;;) {
    const int first = put_out(ways[0]);
    const int second = put_out(ways[1]);
    const int wait = first < 0 ? second : second < 0 ? first : std::min(first, second);
    pollfd ends[] = {{near, POLLIN, 0}, {far, POLLIN, 0}};
    if (::poll(ends, 2, wait) < 0 && errno != EINTR) return 1;
    for (Direction& way : ways) take_in(way, settings, random);
  }
}
