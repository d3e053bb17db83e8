// TLS 1.3 over data connections (--encrypt-data), keyed by the job's data key as a pre-shared key:
// who does not know it gets no handshake. Each connection has keys of its own (ECDHE).
#pragma once

#include <memory>
#include <string>

#include "common/base/unique_fd.h"
#include "worker/hvd/comm/link/link_channel.h"

namespace hvdrun {

class LinkTls {
 public:
  // A connection whose handshake is still to be made.
  class Channel : public LinkChannel {
   public:
    enum class Progress { wants_input, wants_output, done, failed };

    using LinkChannel::LinkChannel;
    // Goes on with the handshake as far as it can without waiting.
    virtual Progress handshake() = 0;
    // The reason of its failure.
    virtual const std::string& problem() const = 0;
  };

  // Throws hvd::Error(unavailable) where OpenSSL is missing.
  explicit LinkTls(const std::string& key);
  ~LinkTls();
  LinkTls(const LinkTls&) = delete;
  LinkTls& operator=(const LinkTls&) = delete;

  // The channel must not outlive this.
  std::unique_ptr<Channel> over(UniqueFd socket, bool accepts) const;

 private:
  class Context;
  const std::unique_ptr<Context> context_;
};

}  // namespace hvdrun
