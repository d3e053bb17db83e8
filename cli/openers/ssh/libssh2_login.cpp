#include "cli/openers/ssh/libssh2_login.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace hvdrun {

Libssh2Login::Libssh2Login(boost::asio::io_context& io, const Libssh2Target& target,
                           std::function<void()> go_on)
    : target_(target), go_on_(std::move(go_on)) {
  if (!target_.agent.empty()) agent_.emplace(io, target_.agent);
}

void Libssh2Login::find_keys(std::function<void(bool)> done) {
  // Files first: an agent may hold more keys than a server lets one try.
  for (const std::string& file : target_.key_files) identities_.push_back({"", file});
  if (!agent_) return done(!identities_.empty());
  agent_->list([this, done = std::move(done)](const std::optional<std::vector<std::string>>& keys) {
    for (const std::string& key : keys.value_or(std::vector<std::string>()))
      if (std::find(target_.key_types.begin(), target_.key_types.end(), key_type(key)) !=
          target_.key_types.end())
        identities_.push_back({key, ""});
    done(!identities_.empty());
  });
}

void Libssh2Login::stop() {
  if (agent_) agent_->stop();
}

int Libssh2Login::step(LIBSSH2_SESSION* session) {
  const std::string& user = target_.user;
  int rc = LIBSSH2_ERROR_AUTHENTICATION_FAILED;
  while (next_ < identities_.size()) {
    const Identity& identity = identities_[next_];
    if (!identity.file.empty())
      rc = ::libssh2_userauth_publickey_fromfile_ex(session, user.c_str(),
                                                    static_cast<unsigned>(user.size()), nullptr,
                                                    identity.file.c_str(), "");
    else
      rc = ::libssh2_userauth_publickey(
          session, user.c_str(), reinterpret_cast<const unsigned char*>(identity.agent_key.data()),
          identity.agent_key.size(), &Libssh2Login::sign, &self_);
    if (rc == 0 || rc == LIBSSH2_ERROR_EAGAIN) return rc;
    signature_.clear();
    refused_ = false;
    ++next_;
  }
  return rc;
}

int Libssh2Login::sign(LIBSSH2_SESSION* /*session*/, unsigned char** signature, std::size_t* size,
                       const unsigned char* data, std::size_t data_size, void** self) {
  return static_cast<Libssh2Login*>(*self)->sign(signature, size,
                                                 {reinterpret_cast<const char*>(data), data_size});
}

// Called again and again by libssh2 until there is a signature; the agent is asked once.
int Libssh2Login::sign(unsigned char** signature, std::size_t* size, std::string_view data) {
  if (refused_) return LIBSSH2_ERROR_AGENT_PROTOCOL;
  if (!signature_.empty()) {
    // libssh2 frees it.
    *signature = static_cast<unsigned char*>(std::malloc(signature_.size()));
    if (*signature == nullptr) return LIBSSH2_ERROR_ALLOC;
    std::memcpy(*signature, signature_.data(), signature_.size());
    *size = signature_.size();
    return 0;
  }
  if (!std::exchange(asking_, true))
    agent_->sign(identities_[next_].agent_key, data, [this](std::optional<std::string> answer) {
      asking_ = false;
      refused_ = !answer;
      if (answer) signature_ = std::move(*answer);
      go_on_();
    });
  return LIBSSH2_ERROR_EAGAIN;
}

}  // namespace hvdrun
