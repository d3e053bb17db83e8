// The place of this process at the start of its job, from its environment: known before
// hvd::init(), and the same as ever when the ranks of an elastic job change. Without a launcher it
// is alone.
#pragma once

#include <string>

namespace hvdrun {

struct StartPlace {
  int rank = 0;
  int size = 1;
  int local_size = 1;
  bool is_late = false;  // it comes to a running job, whose batch its numbers do not tell
  bool again = false;    // the whole job has failed before, and was started again
  std::string job;       // the launcher's name of it, where that may be; else empty
};

StartPlace start_place();

}  // namespace hvdrun
