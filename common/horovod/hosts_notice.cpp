#include "common/horovod/hosts_notice.h"

#include "common/net/hmac_sha256.h"

namespace hvdrun {
namespace {

using namespace std::string_literals;

std::string little_endian(std::uint32_t value) {
  std::string bytes;
  for (unsigned shift = 0; shift < 32; shift += 8)
    bytes.push_back(static_cast<char>(value >> shift));
  return bytes;
}

// Pickle's opcodes: a short text, which later ones can refer to.
std::string text_of(std::string_view text) {
  return "\x8c"s + static_cast<char>(text.size()) + std::string(text) + "\x94";
}

constexpr char kMixed = 3;  // Horovod's bits: hosts have gone, 1, and come, 2

std::string body_of(std::uint32_t number) {
  // object.__new__(HostsUpdatedRequest), its dictionary, and in that HostUpdateResult(kMixed).
  const std::string rest = text_of("horovod.runner.elastic.worker") +
                           text_of("HostsUpdatedRequest") + "\x93\x94)\x81\x94}\x94("s +
                           text_of("timestamp") + "J" + little_endian(number) + text_of("res") +
                           "h\0"s + text_of("HostUpdateResult") + "\x93\x94K"s + kMixed +
                           "\x85\x94R\x94ub."s;
  return "\x80\x05\x95"s + little_endian(static_cast<std::uint32_t>(rest.size())) + "\0\0\0\0"s +
         rest;
}

}  // namespace

std::string hosts_notice(std::string_view key, std::uint32_t number) {
  const std::string body = body_of(number);
  return hmac_sha256(key, body) + little_endian(static_cast<std::uint32_t>(body.size())) + body;
}

std::size_t notice_reply_size(std::string_view head) {
  if (head.size() != kNoticeHead) return 0;
  std::size_t size = 0;
  for (std::size_t i = kNoticeHead; i > kSha256Bytes; --i)
    size = (size << 8U) | static_cast<unsigned char>(head[i - 1]);
  return size <= kMaxNoticeReply ? size : 0;
}

bool is_notice_taken(std::string_view key, std::string_view reply) {
  if (reply.size() <= kNoticeHead) return false;
  const std::string_view body = reply.substr(kNoticeHead);
  return equal_in_constant_time(hmac_sha256(key, body), reply.substr(0, kSha256Bytes)) &&
         body.find("AckResponse") != std::string_view::npos;
}

}  // namespace hvdrun
