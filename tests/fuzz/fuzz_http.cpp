// Bytes of a client, cut into pieces as the first two bytes say, through parser and store of
// Horovod's dialect: a cut changes nothing, and the store stays within its limits.
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/horovod/http_parser.h"
#include "coordinator/horovod/horovod_store.h"

namespace {

using namespace hvdrun;

constexpr HttpLimits kHttp{.line = 200, .headers = 8, .body = 300};
constexpr HorovodLimits kStore{.key = 40, .value = 200, .bytes = 2000, .keys = 20, .waiters = 4};

// The store's answers, in words.
std::string serve(std::string_view bytes, std::size_t piece, bool assigned) {
  HttpParser parser(kHttp);
  HorovodStore store(kStore);
  const std::vector<HostSlots> hosts = {{"a", 2}, {"b", 1}};
  if (assigned) store.assign(members_of({hosts, 3}));
  std::string said;
  int status = 0;
  for (std::size_t at = 0; at < bytes.size() && status == 0; at += piece) {
    parser.feed(bytes.substr(at, piece));
    while (auto request = parser.next(status)) {
      assert(request->body.size() <= kHttp.body && request->target.size() <= kHttp.line);
      HorovodRequest asked;
      const int fault = store.read(std::move(*request), asked);
      const auto answer =
          fault != 0 ? HorovodAnswer{fault, nullptr} : store.answer(std::move(asked), said.size());
      assert(answer.status == 0 || (answer.status >= 200 && answer.status <= 507));
      assert(answer.status != 0 || !assigned);
      assert((answer.value != nullptr) <= (answer.status == 200));
      assert(store.bytes() <= kStore.bytes && store.keys() <= kStore.keys);
      assert(store.waiting() <= kStore.waiters);
      said += std::to_string(answer.status) + (answer.value ? *answer.value : "") + ";";
    }
    assert(parser.held() <= kHttp.line + kHttp.body + piece);
  }
  if (!assigned)
    for (const auto& late : store.assign(members_of({hosts, 0})))
      said += std::to_string(late.waiter) + *late.answer.value;
  return said + std::to_string(status);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 2, size - 2);
  const bool assigned = (data[1] & 1) != 0;
  const std::string whole = serve(bytes, bytes.size() + 1, assigned);
  assert(serve(bytes, data[0] + std::size_t{1}, assigned) == whole);
  return 0;
}
