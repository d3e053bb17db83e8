// One data connection to a rank of another host: messages in the order in which they were sent,
// straight from and into the memory of the operations. One thread; nothing here waits.
//
// A message is a header and its bytes. Both ends know from the operation how long the next one is;
// the header lets them notice when they disagree. A rank that gives up says so in a message of its
// own kind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include <hvd/hvd.h>

#include "common/base/unique_fd.h"
#include "worker/hvd/comm/link/link_channel.h"
#include "worker/hvd/comm/message_memory.h"

namespace hvdrun {

struct LinkHeader {
  std::uint32_t kind = 0;
  std::uint32_t sequence = 0;  // of the operation
  std::uint64_t bytes = 0;
};
static_assert(sizeof(LinkHeader) == 16);

class Link {
 public:
  Link(std::unique_ptr<LinkChannel> channel, std::size_t rank);
  Link(UniqueFd socket, std::size_t rank);

  std::size_t rank() const { return rank_; }
  int fd() const { return channel_->fd(); }

  // The memory must stay as it is until the message is sent, or has come.
  void send(std::uint32_t sequence, MessageMemory memory);
  void send(std::uint32_t sequence, const void* data, std::size_t bytes) {
    send(sequence, {data, bytes});
  }
  void receive(std::uint32_t sequence, MessageMemory memory);
  void receive(std::uint32_t sequence, void* data, std::size_t bytes) {
    receive(sequence, {data, bytes});
  }
  // Messages that are not through yet.
  std::size_t unsent() const { return sends_.size(); }
  std::size_t unreceived() const { return receives_.size(); }

  // Moves what can be moved at once; true when something was. Throws when the other end sent what
  // cannot be.
  bool progress();
  // Input is wanted almost always: a peer's last words are listened to.
  bool wants_input() const { return !ended_ && !failure_ && (!held_ || !receives_.empty()); }
  bool wants_output() const { return !closed_ && !sends_.empty(); }

  // Nothing more of this operation is wanted: what the other end has sent of it is dropped.
  void abandon(std::uint32_t sequence);
  // A message has come that nobody wants yet.
  bool has_news() const { return held_; }
  bool ended() const { return ended_; }

  // The other rank gave up; its reason.
  const std::optional<hvd::Error>& failure() const { return failure_; }
  // True: the bytes that are still to be moved cannot be.
  bool lost() const {
    return (ended_ && !receives_.empty()) || ((ended_ || closed_) && !sends_.empty());
  }

  // Last words of this end. They are left out in the middle of another message.
  void give_up(const hvd::Error& reason);

 private:
  static constexpr std::size_t kBufferBytes = 8192;

  struct Send {
    LinkHeader header;
    MessageMemory memory;
    std::size_t head = 0;  // bytes of the header that are sent

    std::size_t left() const { return sizeof header - head + memory.left(); }
  };
  struct Receive {
    std::uint32_t sequence;
    MessageMemory memory;
    std::size_t bytes;  // of all of it
  };

  bool progress_sends();
  bool progress_receives();
  // More bytes behind those in buffer_, or into these parts; 0: none at the moment.
  std::size_t read_some();
  std::size_t read_some(const iovec* parts, std::size_t count);
  bool take_header();
  void take_failure();
  bool take_data(bool& moved);
  bool skip_data(bool& moved);
  std::size_t buffered() const { return end_ - begin_; }

  const std::unique_ptr<LinkChannel> channel_;
  const std::size_t rank_;
  std::deque<Send> sends_;
  std::deque<Receive> receives_;
  std::byte buffer_[kBufferBytes];
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::optional<LinkHeader> header_;  // of the message that is being read
  std::optional<std::uint32_t> abandoned_;
  std::uint64_t skipped_ = 0;  // bytes of a message that is dropped
  bool held_ = false;          // it came before anybody wanted it
  bool ended_ = false;         // nothing more will come
  bool closed_ = false;        // nothing more can be sent
  std::optional<hvd::Error> failure_;
};

}  // namespace hvdrun
