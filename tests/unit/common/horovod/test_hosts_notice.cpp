#include "common/horovod/hosts_notice.h"
#include "common/net/hmac_sha256.h"
#include "tests/catch.h"

namespace hvdrun {
namespace {

using namespace std::string_literals;

const std::string kKey(32, 'k');

// pickle.dumps(AckResponse(), 5)
const std::string kAck =
    "\x80\x05\x95"
    "9\0\0\0\0\0\0\0\x8c\"horovod.runner.common.util.network\x94\x8c\x0b"
    "AckResponse\x94\x93\x94)\x81\x94."s;

std::string framed(const std::string& body, const std::string& key = kKey) {
  return hmac_sha256(key, body) + static_cast<char>(body.size()) + "\0\0\0"s + body;
}

TEST_CASE("a notice is the pickle that Horovod's launcher sends", "[hosts_notice]") {
  // pickle.dumps(HostsUpdatedRequest(1700000000, HostUpdateResult.mixed), 5)
  const std::string body =
      "\x80\x05\x95u\0\0\0\0\0\0\0\x8c\x1dhorovod.runner.elastic.worker\x94\x8c\x13"
      "HostsUpdatedRequest\x94\x93\x94)\x81\x94}\x94(\x8c\ttimestamp\x94J\0\xf1Se\x8c\x03res\x94h\0"
      "\x8c\x10HostUpdateResult\x94\x93\x94K\x03\x85\x94R\x94ub."s;
  REQUIRE(body.size() == 128);
  CHECK(hosts_notice(kKey, 1'700'000'000) == framed(body));
}

TEST_CASE("a reply counts if it is of whoever has the key", "[hosts_notice]") {
  const std::string reply = framed(kAck);
  CHECK(notice_reply_size(reply.substr(0, kNoticeHead)) == kAck.size());
  CHECK(is_notice_taken(kKey, reply));
  CHECK_FALSE(is_notice_taken("other", reply));
  CHECK_FALSE(is_notice_taken(kKey, framed(kAck, "other")));
  std::string changed = reply;
  changed.back() = '!';
  CHECK_FALSE(is_notice_taken(kKey, changed));
  CHECK_FALSE(is_notice_taken(kKey, framed("an exception")));
  CHECK_FALSE(is_notice_taken(kKey, ""));
  CHECK(notice_reply_size("") == 0);
  CHECK(notice_reply_size(std::string(kNoticeHead, '\xff')) == 0);
  CHECK(notice_reply_size(std::string(kNoticeHead, '\0')) == 0);
}

}  // namespace
}  // namespace hvdrun
