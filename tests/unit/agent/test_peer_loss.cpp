#include <catch2/catch.hpp>

#include "worker/agent/peer_loss.h"

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
  CHECK(peer_loss_line(horovod + "\n") == horovod);
  CHECK(peer_loss_line("Traceback\n" + gloo + "\nbye\n") == gloo);
  CHECK(peer_loss_line("a\r" + horovod + "\r\n" + gloo) == gloo);
  CHECK(peer_loss_line("ConnectionResetError: [Errno 104] Connection reset by peer\n").empty());
  CHECK(peer_loss_line("HorovodInternalError: No Adasum operation enabled\n").empty());
  CHECK(peer_loss_line("HorovodInternalError\nConnection reset by peer\n").empty());
  CHECK(peer_loss_line("").empty());
}

}  // namespace
}  // namespace hvdrun
