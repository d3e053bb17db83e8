// Asks a store that speaks Horovod's HTTP dialect as fast as it answers, each request on a
// connection of its own. Prints how many it answered per second, and how many it lost.
//
//   http_load ADDRESS PORT GET|PUT CLIENTS SECONDS
//
// ADDRESS and PORT may be "env": HOROVOD_GLOO_RENDEZVOUS_ADDR and _PORT are taken.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>

#include "tests/integration/programs/many_requests.h"

namespace {

using namespace hvdrun::test;
using Clock = std::chrono::steady_clock;

std::string from(const char* argument, const char* name) {
  if (argument != std::string("env")) return argument;
  const char* const value = std::getenv(name);
  if (value == nullptr) throw std::runtime_error(std::string(name) + " is unset");
  return value;
}

void load(char** argv) {
  const std::string address = from(argv[1], "HOROVOD_GLOO_RENDEZVOUS_ADDR");
  const auto port =
      static_cast<std::uint16_t>(std::stoi(from(argv[2], "HOROVOD_GLOO_RENDEZVOUS_PORT")));
  const std::string method = argv[3];
  const int clients = std::stoi(argv[4]);
  const std::chrono::milliseconds time(std::stoi(argv[5]) * 1000);
  // Room enough for one address, as the values of two members are.
  const std::string value(136, 'v');
  ManyRequests requests(address, port);
  for (int i = 0; i < clients; ++i)
    requests.start(http_request("PUT", "/load/" + std::to_string(i), address, value),
                   [](const HttpAnswer&) {});
  // A connection that a short backlog has dropped is tried again after 1, 3, 7 seconds.
  if (!requests.run(std::chrono::seconds(60)) || requests.lost() > 0)
    throw std::runtime_error("no store there: " + requests.first_trouble());
  const std::size_t before = requests.finished();
  const auto begin = Clock::now();
  std::size_t wrong = 0;
  std::function<void(int)> ask = [&](int client) {
    requests.start(http_request(method, "/load/" + std::to_string(client), address,
                                method == "PUT" ? value : ""),
                   [&, client](const HttpAnswer& answer) {
                     if (answer.status != 200) ++wrong;
                     ask(client);
                   });
  };
  for (int i = 0; i < clients; ++i) ask(i);
  requests.run(time);  // what is under way then does not count
  const std::chrono::duration<double> took = Clock::now() - begin;
  std::printf("%.1f %zu\n", static_cast<double>(requests.finished() - before) / took.count(),
              wrong);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) return 64;
  try {
    load(argv);
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "http_load: %s\n", e.what());
    return 1;
  }
}
