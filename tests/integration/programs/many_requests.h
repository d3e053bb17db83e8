// Many HTTP requests at once from one thread, each on a connection of its own as Horovod's client
// makes them. For tests and benchmarks: what fails is counted, and nothing is tried again.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <netinet/in.h>
#include <string>
#include <string_view>
#include <unordered_map>

namespace hvdrun::test {

struct HttpAnswer {
  int status = 0;          // 0: the request was lost
  std::string_view begin;  // of the value: its first bytes, at most some kilobytes
  std::size_t length = 0;  // of the whole value, all of which has come
};

// "PUT /scope/key HTTP/1.1" and so on, as Horovod's client writes it.
std::string http_request(const std::string& method, const std::string& path,
                         const std::string& host, const std::string& body = {});

class ManyRequests {
 public:
  using Done = std::function<void(const HttpAnswer&)>;

  ManyRequests(const std::string& address, std::uint16_t port);
  ~ManyRequests();
  ManyRequests(const ManyRequests&) = delete;
  ManyRequests& operator=(const ManyRequests&) = delete;

  // Neither calls back before run().
  void start(std::string request, Done done);
  void after(std::chrono::milliseconds pause, std::function<void()> call);  // always the same pause
  // Until nothing is under way, or the time is up: false then.
  bool run(std::chrono::milliseconds limit);

  std::size_t finished() const { return finished_; }
  std::size_t lost() const { return lost_; }
  const std::string& first_trouble() const { return trouble_; }

 private:
  struct Request {
    std::string bytes;
    std::size_t sent = 0;
    std::string head;  // of the answer, and the beginning of its value
    std::size_t head_size = 0;
    int status = 0;
    std::size_t length = 0;
    std::size_t got = 0;  // of the value
    Done done;
  };

  bool send_some(int fd, Request& request);  // false: it is over
  bool advance(int fd, Request& request);    // likewise
  bool read_head(Request& request);
  void finish(int fd, Request request);
  void fail(Request& request, const std::string& what);

  sockaddr_in address_{};
  int epoll_ = -1;
  std::unordered_map<int, Request> under_way_;
  std::deque<Request> waiting_;  // to be connected
  std::deque<std::pair<std::chrono::steady_clock::time_point, std::function<void()>>> timers_;
  std::size_t finished_ = 0;
  std::size_t lost_ = 0;
  std::string trouble_;
};

}  // namespace hvdrun::test
