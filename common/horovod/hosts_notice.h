// The notice that an elastic Horovod program gets when hosts have come or gone: one request, one
// reply (docs/horovod.md). Each is a frame of 32 bytes HMAC-SHA-256 of the body, its length in 4
// bytes (little endian), and the body, a pickle. The request is always the same but for two
// numbers, so it is a template. Sans-I/O.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace hvdrun {

// The request, under the key that the rank gave. It says that hosts may have come and gone: a rank
// that hears of such as have gone alone takes it that nobody new comes, and keeps its state to
// itself. `number` has to be greater than that of the last notice; horovodrun sends the time.
std::string hosts_notice(std::string_view key, std::uint32_t number);

inline constexpr std::size_t kNoticeHead = 36;        // bytes before the body
inline constexpr std::size_t kMaxNoticeReply = 4096;  // bytes of its body

// The body's bytes that follow this head of a reply; 0: it is none.
std::size_t notice_reply_size(std::string_view head);
// True when the reply, head and body, is of whoever has the key, and says that the notice has come.
bool is_notice_taken(std::string_view key, std::string_view reply);

}  // namespace hvdrun
