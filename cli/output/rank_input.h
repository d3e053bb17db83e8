// hvdrun's stdin for the ranks that --stdin names; where it names none, a hint for a user who has
// given some all the same.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <boost/asio/io_context.hpp>

#include "cli/options/options.h"
#include "cli/output/input_source.h"
#include "cli/output/output_tag.h"
#include "common/wire/messages.h"

namespace hvdrun {

class RankInput {
 public:
  // `send` passes a message on to its rank; `say` gets lines for the user.
  RankInput(boost::asio::io_context& io, const StdinTo& to, std::shared_ptr<const RankTable> table,
            std::function<void(const Input&)> send, std::function<void(const std::string&)> say);

  // False: no rank gets input, so none can have anything to say of it.
  bool is_used() const { return source_.has_value(); }
  // Only when is_used().
  void credit(const InputCredit& message) { source_->credit(message); }
  void closed(const InputClosed& message) { source_->closed(message.rank); }
  // No rank of the host reads any more.
  void forget(std::uint32_t host);
  // Says once that stdin has input which no rank gets. It is asked at once, for a job that may take
  // days, and at its end, for what has come into a pipe since.
  void hint();

 private:
  std::shared_ptr<const RankTable> table_;
  std::function<void(const std::string&)> say_;
  bool may_hint_;
  std::optional<InputSource> source_;
};

}  // namespace hvdrun
