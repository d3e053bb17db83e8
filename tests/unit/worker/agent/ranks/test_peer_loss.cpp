#include "tests/catch.h"
#include "worker/agent/ranks/peer_loss.h"

namespace hvdrun {
namespace {

TEST_CASE("lines that tell of a lost peer are known by speaker and news", "[peer loss]") {
  const std::string horovod =
      "horovod.common.exceptions.HorovodInternalError: Horovod has been shut down. This was caused "
      "by an exception on one of the ranks";
  const std::string gloo =
      "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:598] Connection closed by "
      "peer "
      "[127.0.1.1]:33911";
  CHECK(find_peer_loss(horovod + "\n").line == horovod);
  CHECK(find_peer_loss("Traceback\n" + gloo + "\nbye\n").line == gloo);
  CHECK(find_peer_loss("a\r" + horovod + "\r\n" + gloo).line == gloo);
  CHECK(
      find_peer_loss("ConnectionResetError: [Errno 104] Connection reset by peer\n").line.empty());
  CHECK(find_peer_loss("HorovodInternalError: No Adasum operation enabled\n").line.empty());
  CHECK(find_peer_loss("HorovodInternalError\nConnection reset by peer\n").line.empty());
  CHECK(find_peer_loss("").line.empty());
  CHECK(find_peer_loss(horovod).code == Errc::peer_lost);
}

TEST_CASE("Horovod's time-out in init is known for what it is", "[peer loss]") {
  const std::string line =
      "  what():  [/tmp/x/horovod/common/gloo/http_store.cc:57] Wait timeout after 30 seconds for "
      "key(s): 1. You may want to increase the timeout via HOROVOD_GLOO_TIMEOUT_SECONDS";
  const std::string text =
      "terminate called after throwing an instance of 'gloo::IoException'\n" + line + "\n";
  const auto found = find_peer_loss(text);
  CHECK(found.line == line);
  CHECK(found.code == Errc::timeout);
  CHECK(find_peer_loss("Wait timeout after 3 s\n").line.empty());
}

}  // namespace
}  // namespace hvdrun
