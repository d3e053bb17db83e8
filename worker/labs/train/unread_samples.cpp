#include "worker/labs/train/unread_samples.h"

#include <hvd/torch.h>

#include "worker/labs/base/agreement.h"
#include "worker/labs/base/train_exit_codes.h"
#include "worker/labs/batches/bad_data.h"

namespace hvdrun {

void UnreadSamples::tell(const BadSamples& bad, const std::string& where, const char* fate) {
  if (bad.count == 0) return;
  console_.warn(
      where + ": " + std::to_string(bad.count) +
      (bad.count == 1 ? " image that cannot be read was " : " images that cannot be read were ") +
      fate + ": " + bad.text());
  if (!wished_) misses_data_ = true;
}

void UnreadSamples::judge(const Score& test) const {
  std::string trouble;
  if (misses_data_) trouble = std::string("not all of the data could be read; ") + kSkipHint;
  if (test.samples == 0 && test.bad.count > 0) trouble = "no image of the test could be read";
  if (!trouble.empty()) throw Quit(exit_no_input, hvd::rank() == 0 ? trouble : std::string());
}

}  // namespace hvdrun
