// Samples of a training that cannot be read: they are told of as they come, and the run that missed
// some against the user's wish ends with an exit code of its own.
#pragma once

#include <string>

#include "worker/labs/data/files/bad_samples.h"
#include "worker/labs/report/score.h"
#include "worker/labs/report/train_console.h"

namespace hvdrun {

class UnreadSamples {
 public:
  // `wished`: --bad-data skip, so none of them is an error.
  UnreadSamples(bool wished, TrainConsole& console) : wished_(wished), console_(console) {}

  // All ranks have the same `bad`. `fate`: how they were replaced.
  void tell(const BadSamples& bad, const std::string& where, const char* fate);
  // At the end of the run, when everything has been told. All ranks have the same score of the
  // test. Throws Quit.
  void judge(const Score& test) const;

 private:
  bool wished_;
  TrainConsole& console_;
  bool misses_data_ = false;  // and nobody has wished that
};

}  // namespace hvdrun
