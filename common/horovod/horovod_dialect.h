// Horovod's dialect (docs/horovod.md): what a request of a member asks for, and who answers it.
// Sans-I/O.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "common/horovod/http_parser.h"
#include "common/wire/horovod_messages.h"

namespace hvdrun {

// The one scope whose missing keys are waited for: a member's place after a new assignment.
inline constexpr std::string_view kRankAndSize = "rank_and_size";

struct HorovodRequest {
  HorovodVerb verb{};
  std::string scope;  // neither is empty, or has a '/'
  std::string key;
  std::string value;  // of a put
};

using HorovodBytes = std::shared_ptr<const std::string>;  // live on while they are sent

struct HorovodAnswer {
  int status = 0;      // of HTTP; 0: it comes later
  HorovodBytes value;  // of a get that found something
};

// 0 and the request, or the status to answer. Scope and key have `longest` bytes at most.
int read_horovod_request(HttpRequest http, std::size_t longest, HorovodRequest& request);
// True when both can be part of a request's target.
bool are_scope_and_key(std::string_view scope, std::string_view key, std::size_t longest);

// The side that answers the requests which a HorovodServer reads.
class HorovodBackend {
 public:
  // The number of a connection, which asks one thing at a time. It is never used again once that
  // has gone.
  using Waiter = std::uint64_t;

  HorovodBackend() = default;
  virtual ~HorovodBackend() = default;
  HorovodBackend(const HorovodBackend&) = delete;
  HorovodBackend& operator=(const HorovodBackend&) = delete;

  // Status 0: the answer comes by HorovodServer::answer(), however long that takes.
  virtual HorovodAnswer answer(HttpRequest request, Waiter waiter) = 0;
  // The connection has waited for another HorovodServerLimits::hold. Status 0: it is to go on.
  virtual HorovodAnswer overdue(Waiter waiter) = 0;
  // The connection has gone. An answer that comes all the same is dropped.
  virtual void forget(Waiter waiter) = 0;
};

}  // namespace hvdrun
