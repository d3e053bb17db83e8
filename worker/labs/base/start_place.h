// The place of this process at the start of its job, from its environment: known before
// hvd::init(), and the same as ever when the ranks of an elastic job change. Without a launcher it
// is alone.
#pragma once

namespace hvdrun {

struct StartPlace {
  int rank = 0;
  int size = 1;
  int local_size = 1;
  bool is_late = false;  // it comes to a running job, whose batch its numbers do not tell
};

StartPlace start_place();

}  // namespace hvdrun
