#include "worker/labs/batches/bad_data.h"

#include <chrono>
#include <string>
#include <vector>

#include <hvd/hvd.h>

#include "worker/labs/base/agreement.h"
#include "worker/labs/base/start_place.h"
#include "worker/labs/base/train_exit_codes.h"

namespace hvdrun {
namespace {

// Enough for hundreds of thousands of files on a disk that answers at once. On others, and of
// shards, whose records are read whole, it is a sample.
constexpr std::chrono::seconds kLookOver{5};

}  // namespace

BadSamples bad_of_all_ranks(const BadSamples& mine) {
  if (is_alone()) return mine;
  auto count = static_cast<std::int64_t>(mine.count);
  hvd::allreduce(&count, &count, 1, hvd::ReduceOp::sum);
  BadSamples all;
  if (count == 0) return all;
  std::string lines;
  for (const std::string& line : mine.first) lines.append(line).push_back('\0');
  for (const std::string& text : gather_bytes(lines))
    for (std::size_t at = 0; at < text.size();) {
      const std::string line = text.substr(at, text.find('\0', at) - at);
      all.add(line);
      at += line.size() + 1;
    }
  all.count = static_cast<std::size_t>(count);
  return all;
}

void refuse_bad_data(const DataSets& sets) {
  const auto until = std::chrono::steady_clock::now() + kLookOver;
  const StartPlace start = start_place();
  const auto rank = static_cast<std::size_t>(is_alone() ? start.rank : hvd::rank());
  const auto size = static_cast<std::size_t>(is_alone() ? start.size : hvd::size());
  // The test first: it would be met last.
  BadSamples mine;
  for (const Dataset* data : {sets.test.get(), sets.validation.get(), sets.train.get()})
    if (data != nullptr) mine.add(data->look_over(rank, size, until));
  const BadSamples bad = bad_of_all_ranks(mine);
  if (bad.count == 0) return;
  throw Quit(exit_no_input,
             is_alone() || hvd::rank() == 0 ? bad.text() + "; " + kSkipHint : std::string());
}

}  // namespace hvdrun
